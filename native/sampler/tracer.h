// ptrace(2), as far as the sampler uses it. All calls come from the one thread that seized the tracees.
//
// Threads are seized and stopped by PTRACE_INTERRUPT, never attached to: no signal is made that could do anything without
// the tracer. When the tracer dies, the kernel detaches and the target runs on.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "memory/memory.h"
#include "unwind/rule.h"

namespace weft::tracer {

enum class Result : std::uint8_t {
    kOk,
    kGone,    // no such thread, or it is ending
    kDenied,  // no permission, or another tracer holds it
};

// What a traced thread reports.
struct Stop {
    enum class Kind : std::uint8_t {
        kInterrupt,  // our own, or a new tracee's first, or the end of a group stop
        kGroup,      // stopped by SIGSTOP and the like, until SIGCONT comes
        kSignal,     // a signal on its way to the thread
        kExec,
        kNewTask,  // it has made a thread or a process: new_task()
        kEnd,      // it has ended
    };
    Kind kind = Kind::kEnd;
    int signal = 0;  // kSignal: to be passed on
    int status = 0;  // kEnd: as of wait(2)
};

// What a stopped thread's registers say.
struct Registers {
    Address thread_pointer = 0;  // fs base: pthread_self in glibc and musl
    Address stack_pointer = 0;
    bool interrupted_syscall = false;  // it was in a system call that will return EINTR or be restarted
    RegisterSet all;
};

// follow_processes: children are seized as they are made.
Result seize(pid_t tid, bool follow_processes);
Result interrupt(pid_t tid);
Result resume(pid_t tid, int signal);
Result listen(pid_t tid);  // lets a group stop last, so that SIGCONT ends it as if nobody traced
Result detach(pid_t tid);
bool registers(pid_t tid, Registers& registers);

// The task that the thread, in a stop of kind kNewTask, has made; 0: it is gone.
pid_t new_task(pid_t tid);

// The stop that the thread is in, reported or not; none if it is in none.
std::optional<Stop> current_stop(pid_t tid);

// The kernel begins most system calls again that a stop has interrupted, but ends some with EINTR, signal handler or not
// (signal(7), "Interruption of system calls and library functions by stop signals"). This has those begun again, too.
// For a stopped thread.
void restart_syscall(pid_t tid);

// The next report of any tracee, or of one; 0: there is none.
pid_t next_stop(Stop& stop);
bool next_stop_of(pid_t tid, Stop& stop);

}  // namespace weft::tracer
