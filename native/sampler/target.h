// What the sampler keeps of each process and thread that it samples.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "memory/late_pages.h"
#include "memory/process.h"
#include "sampler/cpu_clock.h"
#include "sampler/gil_blame.h"
#include "sampler/late.h"
#include "sampler/off_cpu.h"
#include "sampler/proc.h"
#include "sampler/python_target.h"
#include "sampler/retakes.h"
#include "sampler/stacks.h"
#include "sampler/switch_outs.h"
#include "sampler/timeline.h"
#include "sampler/vocabulary.h"
#include "unwind/code_map.h"
#include "weave/weave.h"

namespace weft {

struct SampledProcess;

inline constexpr std::uint64_t kNever = ~std::uint64_t{0};  // as a time in ns

// Where a process's Python is.
struct PythonPlace {
    Layout layout;
    RuntimeAddresses addresses;
};

// A thread that is not on a CPU at `at_ns`, and has been switched in `switches` times by then.
struct Stillness {
    std::uint64_t at_ns = 0;
    std::uint64_t switches = 0;
};

struct SampledThread {
    enum class Trace : std::uint8_t {
        kNot,          // not seized yet
        kRunning,      // seized
        kInterrupted,  // told to stop, has not reported yet
        kListening,    // in a group stop
    };

    SampledThread(SampledProcess& owner, std::uint32_t number, pid_t task, Timeline line)
        : process(owner), id(number), tid(task), timeline(std::move(line)) {}

    SampledProcess& process;
    std::uint32_t id;
    pid_t tid;
    std::string name;
    Trace trace = Trace::kNot;
    ThreadFiles files;
    CpuClock clock;
    std::optional<SwitchOuts> switch_outs;  // from when it was found to need them, where it is blocked
    Timeline timeline;
    PythonThread python;
    LastStack last_stack;
    Address stack_end = 0;         // how far its native stack was last read
    OffCpu off_cpu;                // where the kernel tells of its switches
    weft_return told{};            // the last of these
    std::uint64_t account_ns = 0;  // since when the kernel's account of it counts
    Doings doings;
    std::uint64_t next_check_ns = 0;  // when the wall clock's ticks look at it again
    // Since it was seen blocked with this schedstat; as long as that stands still, so does the thread.
    std::optional<SchedStat> blocked;
    std::uint64_t blocked_ns = 0;
    bool code_lacked = false;           // then, for its native stack: it is to be looked at again with more
    std::optional<SchedStat> ticked;    // its account when its clock last ticked
    std::optional<Stillness> still;     // when it was last known not to be on a CPU
    bool ran_on = false;                // from there to its last tick, without being switched in again
    std::optional<Stillness> rested;    // when it was last seen blocked
    std::uint64_t interrupted_ns = 0;   // when it was told to stop
    std::optional<SchedStat> released;  // its account then
    std::uint64_t released_ns = 0;      // when that stop ended
    std::uint64_t spared_until_ns = 0;  // it has been held for long
    // It blocks between its samples, so that ticks of the wall clock have to look for where, at least until then.
    std::uint64_t blocks_until_ns = 0;
    std::uint64_t unseen_blocked_ns = 0;  // of its timeline, when it was last sampled running
    std::optional<SchedStat> in_stop;     // its account when it was last found in a stop that nobody had told us of
    Retakes retakes;                      // while its stack cannot be told
    Retakes blind_looks;                  // while its registers are not known
    std::uint64_t gil_weight_ns = 0;      // mode gil: the time that its next sample stands for
};

struct SampledProcess {
    enum class Python : std::uint8_t {
        kUnknown,  // being looked for
        kNone,     // there is none
        kFound,
    };

    SampledProcess(std::uint32_t number, pid_t process_id)
        : id(number), pid(process_id), memory(process_id), late_pages(process_id) {}

    std::uint32_t id;
    pid_t pid;
    bool launching = false;     // our own child before its exec: not yet what is to be recorded
    Descriptor pid_descriptor;  // readable when the process has ended
    ProcessMemory memory;
    LatePages late_pages;  // of it, that the kernel's walk could not read
    Python python_state = Python::kUnknown;
    std::unique_ptr<PythonTarget> python;
    PythonPlace place;                  // of `python`, for children that inherit it
    std::uint64_t python_since_ns = 0;  // from then on the kernel walks it, too
    CodeMap code;
    std::unique_ptr<Weaver> weaver = std::make_unique<Weaver>(Layout{});
    std::set<std::uint32_t> code_wanted;  // modules whose tables have been asked for
    Address code_asked = 0;               // where code in no module was met that has been asked about
    std::uint64_t next_code_ask_ns = 0;   // when such code may be asked about again
    std::uint64_t code_ask_pause_ns = 0;
    std::vector<LateStack> late;
    Losses losses;
    bool has_mapped = false;         // code, since the last batch
    std::uint64_t next_scan_ns = 0;  // for threads and children that nobody told of
    // Of a process whose own start nobody told of: until when children of it may be found by scans alone.
    std::uint64_t scan_children_until_ns = 0;
    std::uint64_t walked_since_ns = 0;  // before that the kernel has walked its stacks as those of another program
    std::set<pid_t> children;           // that scans have found
    std::string image;                  // collector peek: read_image(), by which an exec is noticed
    std::uint64_t next_names_ns = 0;    // when scans look at threads' names again
    std::uint64_t gil_tick_ns = 0;      // mode gil: the last tick
    std::map<pid_t, std::unique_ptr<SampledThread>> threads;
};

}  // namespace weft
