// One thread held still, for a dump: outside of a recording, without the sampler's loop.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <thread>

#include "sampler/tracer.h"

namespace weft {

// Stops one thread by ptrace(2) and holds it until it is released. A thread of our own traces it: when that one ends, the
// kernel lets go of its tracee (kernel/ptrace.c, exit_ptrace), also of one that has not stopped in time and could not be
// detached from.
class StoppedThread {
   public:
    enum class Result : std::uint8_t {
        kStopped,
        kGone,
        kDenied,    // no permission, or another tracer holds it
        kTimedOut,  // it sits where it cannot be stopped: in the kernel, uninterruptibly
    };

    StoppedThread(pid_t tid, std::chrono::nanoseconds timeout);
    ~StoppedThread();
    StoppedThread(const StoppedThread&) = delete;
    StoppedThread& operator=(const StoppedThread&) = delete;

    Result result() const { return stop_.result; }
    Address thread_pointer() const { return stop_.thread_pointer; }  // fs base; 0: not stopped
    const RegisterSet& registers() const { return stop_.registers; }

    void release();

   private:
    struct Stop {
        Result result = Result::kGone;
        Address thread_pointer = 0;
        RegisterSet registers;
    };

    static void hold(pid_t tid, std::chrono::nanoseconds timeout, std::promise<Stop> stopped,
                     std::future<void> released);

    std::promise<void> release_;
    std::thread tracer_;
    Stop stop_;
};

}  // namespace weft
