// Reading ahead: what one look at a thread has read, the next look fetches in a single call.
//
// A stopped thread cannot change its memory, so bytes fetched early are as good as bytes fetched late; where the guess
// was wrong (a frame has gone, another has come), the byte is read when it is asked for, as if there were no guess.
#pragma once

#include <vector>

#include "memory/process.h"

namespace weft {

// What to fetch for one thread.
using ReadPlan = std::vector<Span>;

class ReadAhead final : public Memory {
   public:
    // Begins a look: fetches the plan through `memory`, which must outlive the look.
    void begin(ProcessMemory& memory, const ReadPlan& plan);

    // Ends it: `plan` becomes what the look has used, for the next time.
    void end(ReadPlan& plan);

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override;

    std::uint64_t calls() const { return calls_; }  // system calls so far

   private:
    struct Piece {
        Span span;
        std::size_t offset;  // in bytes_
        bool used;
    };

    const Piece* find(Address address, std::size_t size);

    ProcessMemory* memory_ = nullptr;
    std::vector<Piece> pieces_;
    std::vector<std::byte> bytes_;  // of all pieces, one behind the other
    std::size_t end_ = 0;           // of the bytes in use
    std::size_t next_ = 0;  // where the search begins: walks repeat, so the piece behind the last hit is the likely one
    std::uint64_t calls_ = 0;
};

}  // namespace weft
