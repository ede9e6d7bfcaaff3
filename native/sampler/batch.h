// What the sampler hands to Python: everything that has happened since the last batch.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "python/code.h"
#include "sampler/runs.h"
#include "sampler/stacks.h"
#include "sampler/timeline.h"
#include "sampler/vocabulary.h"

namespace weft {

struct Event {
    enum class Kind : std::uint8_t {
        kProcessStart,     // attached to, forked, or made new by exec
        kPythonInherited,  // forked from a process whose Python is known: so is this one's
        kProcessEnd,       // value: the status as of wait(2), -1: not known
        kThreadStart,
        kThreadEnd,
        kThreadName,
        kCodesForgotten,  // codes of the process with ids below `value` will not be named again
        kCodeUnknown,     // code at the address `value` was met, for which the map has no unwind table
        kCodeMapped,      // the process has mapped code; told by collector bpf
    };
    Kind kind = Kind::kProcessStart;
    std::uint64_t at_ns = 0;
    std::uint32_t process = 0;  // our number for it
    std::uint32_t thread = 0;   // 0 for events of processes
    std::uint32_t parent = 0;   // the process it was forked from, or was before exec; 0: attached to
    pid_t id = 0;               // pid or tid
    std::int64_t value = 0;
    std::string name;  // kThreadStart, kThreadName
};

struct CodeRow {
    std::uint32_t process = 0;
    CodeDefinition code;
};

struct ThreadRuns {
    std::uint32_t thread = 0;
    RunEncoder::Batch runs;
};

struct StandingChange {
    std::uint32_t thread = 0;
    std::optional<Standing> standing;  // none: it stands no more
};

// So long a thread waited for the GIL, in one stack, while another held it, in another stack. To be added to what was told before.
struct GilWait {
    std::uint32_t waiter = 0;
    std::uint32_t waiter_stack = 0;
    std::uint32_t holder = 0;        // 0: not known
    std::uint32_t holder_stack = 0;  // 0: it was not sampled meanwhile
    std::uint64_t weight_ns = 0;
};

struct ProcessLosses {
    std::uint32_t process = 0;
    Losses losses;
};

// Totals since the start of the recording.
struct Account {
    std::uint64_t samples_wanted = 0;   // ticks that came due
    std::uint64_t samples_taken = 0;    // stacks that were taken for them
    std::uint64_t samples_late = 0;     // ticks that the sampler was too late for
    std::uint64_t samples_dropped = 0;  // taken by the kernel, of threads that were gone when it told of them
    std::uint64_t changes_lost = 0;     // looks that found that the kernel had lost some of what it tells of processes
    std::uint64_t stacks_whole = 0;
    std::uint64_t stacks_truncated = 0;
    std::uint64_t stacks_incomplete = 0;  // whole, with a frame that had not started yet
    std::uint64_t stacks_retaken = 0;     // caught between two frames, or on the move, and left to the next tick
    // How they were read, besides by stops:
    std::uint64_t stacks_in_kernel = 0;  // by the kernel, on the thread itself
    std::uint64_t stacks_waiting = 0;    // while the thread provably waited for the CPU that its reader ran on
    std::uint64_t stacks_still = 0;      // while it provably was blocked
    std::uint64_t stacks_moving = 0;     // while it ran, or may have: three readings had to agree
    std::uint64_t stacks_read_late =
        0;                    // of those in the kernel: pages were not resident, and were read behind it, untouched
    std::uint64_t stays = 0;  // off the CPU, that the kernel told of, with the stack
    std::uint64_t stays_estimated =
        0;  // and those of which it took none: their time is exact, where they were is estimated
    std::uint64_t kernel_stacks = 0;  // that show where in the kernel the thread was
    std::uint64_t kernel_hidden = 0;  // of threads that were in the kernel, which did not tell where
    // Of stacks that were woven:
    std::uint64_t native_whole = 0;      // the native stack reaches the thread's first function
    std::uint64_t native_truncated = 0;  // it does not, or could not be read at all
    std::uint64_t seams_proven = 0;
    std::uint64_t seams_counted = 0;
    std::uint64_t seams_open = 0;
    std::uint64_t stops = 0;
    std::uint64_t holds = 0;  // times that a thread waited for us, stopped or not
    std::uint64_t hold_ns_total = 0;
    std::uint64_t hold_ns_max = 0;
    std::uint64_t hold_ns_median = 0;
    std::uint64_t hold_ns_p99 = 0;
    std::uint64_t syscalls_interrupted = 0;  // stops that met a blocking system call: the kernel restarts most of them
    std::uint64_t sampler_cpu_ns = 0;
    std::uint64_t cpu_clocks = 0;          // threads paced by their own CPU clock, ever
    std::uint64_t cpu_clocks_refused = 0;  // threads paced by the wall clock instead
};

struct Batch {
    std::uint64_t until_ns = 0;  // everything up to here is in this batch or an earlier one
    std::vector<Event> events;
    std::vector<CodeRow> codes;
    std::vector<std::string> kernel_names;  // the next numbers' names
    std::vector<FrameRow> frames;
    std::vector<StackRow> stacks;
    std::vector<ThreadRuns> runs;
    std::vector<StandingChange> standing;
    std::vector<GilWait> gil_waits;
    std::vector<ProcessLosses> losses;  // of the processes that had any
    Account account;
    bool finished = false;  // nothing more will come: every target has ended, or the sampler was stopped
};

}  // namespace weft
