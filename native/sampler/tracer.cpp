#include "sampler/tracer.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

namespace weft::tracer {

namespace {

// Not in every libc's headers (include/uapi/linux/ptrace.h, wait.h).
constexpr int kEventStop = 128;
constexpr int kNoThread = 0x20000000;  // __WNOTHREAD
constexpr int kAll = 0x40000000;       // __WALL

// What a system call returns in rax while it waits to be restarted or to fail (include/linux/errno.h).
constexpr std::int64_t kEintr = 4;
constexpr std::int64_t kRestartFirst = 512;
constexpr std::int64_t kRestartNoHandler = 514;  // again, unless a handler runs: then EINTR
constexpr std::int64_t kRestartLast = 516;

constexpr std::uint64_t kCode64 = 0x33;  // cs of 64-bit code (arch/x86/include/asm/segment.h, __USER_CS)

Result result_of(long returned) {
    if (returned == 0) {
        return Result::kOk;
    }
    return errno == ESRCH ? Result::kGone : Result::kDenied;
}

template <typename Request>
Result call(Request request, pid_t tid, std::uintptr_t data) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): ptrace takes numbers as pointers
    return result_of(ptrace(request, tid, nullptr, reinterpret_cast<void*>(data)));
}

bool is_stopping(int signal) {
    return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

// Calls that fail with EINTR and have done nothing by then; sockets do so if they have a timeout (SO_RCVTIMEO).
bool is_restartable(std::uint64_t syscall) {
    switch (syscall) {
        case SYS_epoll_wait:
        case SYS_epoll_pwait:
        case SYS_epoll_pwait2:
        case SYS_semop:
        case SYS_semtimedop:
        case SYS_rt_sigtimedwait:
        case SYS_io_getevents:
        case SYS_accept:
        case SYS_accept4:
        case SYS_recvfrom:
        case SYS_recvmsg:
        case SYS_sendto:
        case SYS_sendmsg: return true;
        default: return false;
    }
}

Stop to_stop(int status) {
    Stop stop;
    stop.status = status;
    if (!WIFSTOPPED(status)) {
        return stop;
    }
    const int signal = WSTOPSIG(status);
    switch (status >> 16) {
        case 0:
            stop.kind = Stop::Kind::kSignal;
            stop.signal = signal;
            break;
        case kEventStop: stop.kind = is_stopping(signal) ? Stop::Kind::kGroup : Stop::Kind::kInterrupt; break;
        case PTRACE_EVENT_EXEC: stop.kind = Stop::Kind::kExec; break;
        default: stop.kind = Stop::Kind::kNewTask; break;
    }
    return stop;
}

}  // namespace

Result seize(pid_t tid, bool follow_processes) {
    std::uintptr_t options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
    if (follow_processes) {
        options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    }
    return call(PTRACE_SEIZE, tid, options);
}

Result interrupt(pid_t tid) { return call(PTRACE_INTERRUPT, tid, 0); }
Result resume(pid_t tid, int signal) { return call(PTRACE_CONT, tid, static_cast<std::uintptr_t>(signal)); }
Result listen(pid_t tid) { return call(PTRACE_LISTEN, tid, 0); }
Result detach(pid_t tid) { return call(PTRACE_DETACH, tid, 0); }

bool registers(pid_t tid, Registers& registers) {
    user_regs_struct regs{};
    iovec area{&regs, sizeof regs};
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &area) != 0) {
        return false;
    }
    registers.thread_pointer = regs.fs_base;
    registers.stack_pointer = regs.rsp;
    // In the order of DWARF's numbers.
    const std::array values = {regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi, regs.rbp, regs.rsp, regs.r8,
                               regs.r9,  regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15, regs.rip};
    for (std::size_t i = 0; i < values.size(); ++i) {
        registers.all.set(static_cast<Register>(i), values[i]);
    }
    const auto returned = static_cast<std::int64_t>(regs.rax);
    const bool in_syscall = static_cast<std::int64_t>(regs.orig_rax) >= 0;
    registers.interrupted_syscall =
        in_syscall && (returned == -kEintr || (returned <= -kRestartFirst && returned >= -kRestartLast));
    return true;
}

pid_t new_task(pid_t tid) {
    unsigned long made = 0;
    return ptrace(PTRACE_GETEVENTMSG, tid, nullptr, &made) == 0 ? static_cast<pid_t>(made) : 0;
}

std::optional<Stop> current_stop(pid_t tid) {
    siginfo_t info{};
    if (ptrace(PTRACE_GETSIGINFO, tid, nullptr, &info) != 0) {
        return std::nullopt;
    }
    // As wait(2) would have told it: of an event, si_code is what stands above the 0x7f of a stop's status.
    const int event = info.si_code > 0 ? info.si_code >> 8 : 0;
    const int signal = event != 0 ? info.si_code & 0xff : info.si_signo;
    return to_stop((event << 16) | (signal << 8) | 0x7f);
}

void restart_syscall(pid_t tid) {
    user_regs_struct regs{};
    iovec area{&regs, sizeof regs};
    // NOLINTBEGIN(performance-no-int-to-ptr)
    if (ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &area) != 0 || regs.cs != kCode64 ||
        static_cast<std::int64_t>(regs.rax) != -kEintr || !is_restartable(regs.orig_rax)) {
        return;
    }
    // As if the call itself had asked for it (arch/x86/kernel/signal.c, arch_do_signal_or_restart).
    regs.rax = static_cast<std::uint64_t>(-kRestartNoHandler);
    ptrace(PTRACE_SETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &area);
    // NOLINTEND(performance-no-int-to-ptr)
}

pid_t next_stop(Stop& stop) {
    int status = 0;
    const pid_t tid = waitpid(-1, &status, WNOHANG | kAll | kNoThread);
    if (tid <= 0) {
        return 0;
    }
    stop = to_stop(status);
    return tid;
}

bool next_stop_of(pid_t tid, Stop& stop) {
    int status = 0;
    if (waitpid(tid, &status, WNOHANG | kAll | kNoThread) <= 0) {
        return false;
    }
    stop = to_stop(status);
    return true;
}

}  // namespace weft::tracer
