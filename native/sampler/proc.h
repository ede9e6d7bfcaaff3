// The files of /proc that the sampler reads once per sample or tick, kept open.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/descriptor.h"
#include "memory/memory.h"

namespace weft {

inline constexpr std::uint64_t kSchedulerTick = 10'000'000;  // ns, at 100 Hz, the slowest

// /proc/PID/task/TID/schedstat: "CPU time, run delay, times switched in" (Documentation/scheduler/sched-stats.rst).
// For a thread that is on a CPU the times lag by up to a scheduler tick; the count is exact.
struct SchedStat {
    std::uint64_t cpu_ns = 0;
    std::uint64_t delay_ns = 0;  // ready, and waiting for a CPU
    std::uint64_t switches = 0;

    bool operator==(const SchedStat&) const = default;
};

// /proc/PID/task/TID/syscall (fs/proc/base.c, proc_pid_syscall).
struct ThreadActivity {
    enum class Kind : std::uint8_t {
        kRunning,  // on a CPU, or ready
        kBlocked,  // not running; `syscall` says in what
        kGone,
        kUnknown,  // the file is not there, or forbidden
    };
    Kind kind = Kind::kUnknown;
    std::int64_t syscall = -1;  // its number; -1: blocked outside of one (a page fault)
    Address first_argument = 0;
    Address second_argument = 0;
    Address stack_pointer = 0;
    Address pc = 0;
};

// A file of /proc/PID/task/TID. It stays open as long as half of the files that we may have open are left; beyond that, in
// programs with thousands of threads, it is opened for each read.
class TaskFile {
   public:
    TaskFile() = default;
    TaskFile(pid_t pid, pid_t tid, const char* name);

    // Its text from the beginning, cut where the buffer ends. Returns its size, or a negative errno; -ESRCH: the thread has ended.
    ssize_t read(std::span<char> buffer) const;

   private:
    std::string path_;  // "": it is kept open, or was refused
    Descriptor file_;
};

class ThreadFiles {
   public:
    ThreadFiles() = default;
    ThreadFiles(pid_t pid, pid_t tid);

    bool read(SchedStat& stat) const;  // false: gone, or the kernel has no schedstat
    ThreadActivity activity() const;
    std::optional<std::uint64_t> faults() const;  // how many pages it has touched that were not resident
    int cpu() const;                              // the CPU that it is on, waits for, or was on last; -1: gone

    // Where a blocked thread is in the kernel: the names of functions, innermost first, each as "vfs_read" or
    // "ext4_read [ext4]". False: gone, or forbidden to us (all but root).
    bool read_kernel_stack(std::vector<std::string>& functions) const;

   private:
    TaskFile schedstat_;
    TaskFile syscall_;
    TaskFile stat_;
    TaskFile stack_;
};

// Where the code and the stack of a process begin: other places after each exec(2), as a rule. Empty: gone, forbidden, or
// in the midst of an exec.
std::string read_image(pid_t pid);

std::vector<pid_t> list_processes();  // of the machine, as far as we may see it
std::vector<pid_t> list_threads(pid_t pid);
std::vector<pid_t> list_children(pid_t pid);  // of all its threads
std::string read_thread_name(pid_t pid, pid_t tid);
bool is_kernel_task(pid_t pid);                    // it has no user mode
std::optional<uid_t> read_user(pid_t pid);         // the effective one; none: the process is gone
std::vector<std::string> read_cgroups(pid_t pid);  // in each hierarchy, from its root

// What /proc/TID/status says of a thread.
struct ThreadStatus {
    pid_t process = 0;   // 0: gone
    bool ended = false;  // and nobody has waited for it
    pid_t parent = 0;
    pid_t tracer = 0;     // 0: none
    pid_t inner_tid = 0;  // its number in its own pid namespace
};
ThreadStatus read_thread_status(pid_t tid);

std::uint64_t read_clock(clockid_t clock);  // ns
std::uint64_t monotonic_ns();
std::uint64_t own_cpu_ns();    // of the calling thread
std::uint64_t own_switches();  // how often the calling thread has been switched out

}  // namespace weft
