// The registers of blocked threads. /proc/TID/syscall tells the stack pointer and pc of one; unwinding code that keeps a
// frame pointer needs more. An event on the thread's context switches records them all as it is switched out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "memory/descriptor.h"
#include "unwind/rule.h"

namespace weft {

class SwitchOuts {
   public:
    SwitchOuts() = default;
    // Not valid() where the kernel refuses, as it does for ordinary users: it is the kernel that is watched.
    explicit SwitchOuts(pid_t tid);
    ~SwitchOuts();
    SwitchOuts(SwitchOuts&& other) noexcept;
    SwitchOuts& operator=(SwitchOuts&& other) noexcept;

    bool valid() const { return pages_ != nullptr; }

    // What it had in user mode when it was last switched out; nothing if it was not since this began. The thread must be
    // off its CPU.
    std::optional<RegisterSet> last() const;

   private:
    Descriptor event_;
    void* pages_ = nullptr;  // a ring that keeps the last records, and wakes nobody
};

}  // namespace weft
