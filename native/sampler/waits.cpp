#include "sampler/waits.h"

#include <sys/syscall.h>

namespace weft {

namespace {

constexpr std::int64_t kFutexWait = 455;  // Linux 6.7

// poll and select with nothing to wait for but time: so time.sleep() did up to Python 3.10.
bool only_for_time(const Wait& wait) {
    switch (wait.system_call) {
        case SYS_select:
        case SYS_pselect6: return wait.first_argument == 0;
        case SYS_poll:
        case SYS_ppoll: return wait.second_argument == 0;
        default: return false;
    }
}

bool is_io(std::int64_t system_call) {
    switch (system_call) {
        case SYS_read:
        case SYS_write:
        case SYS_readv:
        case SYS_writev:
        case SYS_pread64:
        case SYS_pwrite64:
        case SYS_preadv:
        case SYS_pwritev:
        case SYS_preadv2:
        case SYS_pwritev2:
        case SYS_recvfrom:
        case SYS_sendto:
        case SYS_recvmsg:
        case SYS_sendmsg:
        case SYS_recvmmsg:
        case SYS_sendmmsg:
        case SYS_accept:
        case SYS_accept4:
        case SYS_connect:
        case SYS_poll:
        case SYS_ppoll:
        case SYS_select:
        case SYS_pselect6:
        case SYS_epoll_wait:
        case SYS_epoll_pwait:
        case SYS_epoll_pwait2:
        case SYS_sendfile:
        case SYS_splice:
        case SYS_tee:
        case SYS_vmsplice:
        case SYS_copy_file_range:
        case SYS_open:
        case SYS_openat:
        case SYS_ioctl:
        case SYS_fsync:
        case SYS_fdatasync:
        case SYS_io_getevents:
        case SYS_io_uring_enter:
        case SYS_mq_timedreceive:
        case SYS_mq_timedsend:
        case SYS_msgrcv:
        case SYS_msgsnd: return true;
        default: return false;
    }
}

}  // namespace

State state_of(const Wait& wait) {
    if (only_for_time(wait)) {
        return State::kSleeping;
    }
    switch (wait.system_call) {
        case SYS_nanosleep:
        case SYS_clock_nanosleep: return State::kSleeping;
        case SYS_futex:
        case SYS_futex_waitv:
        case kFutexWait:
        case SYS_flock:
        case SYS_fcntl:  // none of its commands waits but those for locks
        case SYS_semop:
        case SYS_semtimedop: return State::kLock;
        case SYS_vfork:
        case SYS_clone:
        case SYS_clone3: return State::kBlocked;  // for the exec of a child; the kernel does not let signals in
        default: return wait.uninterruptible || is_io(wait.system_call) ? State::kIo : State::kBlocked;
    }
}

}  // namespace weft
