// Notes what is read through it: how a snapshot learns which bytes of a process a walk needs.
#pragma once

#include <cstdint>
#include <map>

#include "memory/memory.h"

namespace weft {

class RecordingMemory final : public Memory {
   public:
    explicit RecordingMemory(Memory& memory) : memory_(memory) {}

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override {
        const ReadResult result = memory_.read(address, to, size);
        if (result == ReadResult::kOk && size > 0) {
            std::size_t& known = spans_[address];
            known = known < size ? size : known;
        }
        return result;
    }

    // Address -> size in bytes; spans may overlap.
    const std::map<Address, std::size_t>& spans() const { return spans_; }

   private:
    Memory& memory_;
    std::map<Address, std::size_t> spans_;
};

}  // namespace weft
