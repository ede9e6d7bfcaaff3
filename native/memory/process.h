// The memory of a live process, by process_vm_readv(2): no stop, no side effect on the target.
#pragma once

#include <sys/types.h>

#include <span>

#include "memory/memory.h"

namespace weft {

struct Span {
    Address address;
    std::uint32_t size;
};

class ProcessMemory final : public Memory {
   public:
    // Any thread of the process will do; a process whose first thread has ended is still read through another one.
    explicit ProcessMemory(pid_t tid) : tid_(tid) {}

    void read_through(pid_t tid) { tid_ = tid; }

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override;

    // Reads `spans` one behind the other into `to`, in one call. Returns how many bytes were read: short if a span could
    // not be, and then nothing behind it was tried.
    std::size_t read_many(std::span<const Span> spans, void* to);

   private:
    pid_t tid_;
};

}  // namespace weft
