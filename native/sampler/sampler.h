// The sampler: paces, reads and accounts for every thread of the targets.
//
//   pacing.cpp     when a thread is due: its own CPU clock, and the ticks of the wall clock
//   taking.cpp     one look at a thread that runs: stop or no stop, and read
//   kernel_ticks.cpp  the same, where the kernel has looked
//   kernel_switches.cpp  threads that leave their CPU: where they are, and for how long
//   kernel_allocations.cpp  threads that ask for memory
//   resting.cpp    one at a thread that is blocked
//   weaving.cpp    what a look has seen: woven, and as a number
//   late.cpp       the same, once its code is known
//   accounting.cpp what it has come to: a sample with its weight, a loss, or nothing yet
//   following.cpp  processes and threads that come and go; ptrace's reports
//   sampler.cpp    the loop around them, and the border to Python's threads
//
// Python's side calls the public functions from any thread. The loop is the sampler's own thread, and the tracer of all
// tracees; running threads are read by the readers (readers.h), one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "sampler/batch.h"
#include "sampler/filter.h"
#include "sampler/gil_blame.h"
#include "sampler/holds.h"
#include "sampler/kernel_sample.h"
#include "sampler/kernel_side.h"
#include "sampler/readers.h"
#include "sampler/sideband.h"
#include "sampler/target.h"
#include "sampler/tracer.h"
#include "sampler/vocabulary.h"

namespace weft {

struct SamplerOptions {
    double rate_hz = 99;
    Mode mode = Mode::kWall;
    bool stop_threads = true;  // false: collector peek
    bool follow_processes = false;
    bool native = false;               // native stacks too, woven with those of Python
    std::optional<KernelMaps> kernel;  // collector bpf: the kernel takes the samples of threads that run
    // With it: all processes that the filter lets through are sampled, also those that nobody has attached to.
    std::optional<ProcessFilter> machine;
};

enum class AttachResult : std::uint8_t { kOk, kGone, kDenied };

class Sampler {
   public:
    explicit Sampler(const SamplerOptions& options);
    ~Sampler();
    Sampler(const Sampler&) = delete;
    Sampler& operator=(const Sampler&) = delete;

    // Samples the process from now on. `launching`: it is a child of ours that waits for us before its exec; what it
    // becomes is followed from its first instruction on, and what it is now is not recorded. `python`: where its Python
    // is, if that is known already; `code`: what is known of its code.
    AttachResult attach(pid_t pid, bool launching, const std::optional<PythonPlace>& python, const CodeMap& code);

    // Tells what was found out about a process: where its Python is, or that it has none. A process that has ended is
    // ignored.
    void set_python(std::uint32_t process, const PythonPlace& place);
    void set_no_python(std::uint32_t process);

    // Tells where the code of a process lies now, in place of what was told before.
    void set_code(std::uint32_t process, const CodeMap& code);

    // Waits for the next batch; false if none came in time, or a signal did.
    bool next_batch(double timeout_s, Batch& batch);

    // Ends the sampling: what is left comes as the last batch. The targets are let go.
    void stop();

   private:
    using Command = std::function<void()>;

    // sampler.cpp
    void run();
    void wait(std::unique_lock<std::mutex>& turn);
    void on_ticks(TickRing& ring, const Wake& wake);
    void run_commands();
    void call(const Command& command);  // on the sampler's thread, to the end
    void publish(bool finished);
    void publish_soon();  // there is something that Python's side has to look at while it lasts
    void collect(SampledThread& thread);
    void end_recording();

    // pacing.cpp
    std::uint64_t next_deadline_ns(std::uint64_t now_ns) const;
    std::uint64_t check_time(std::uint64_t at_ns) const;
    void arm_timer(std::uint64_t now_ns);
    void postpone_timer(std::uint64_t now_ns);
    void set_timer(std::uint64_t at_ns);
    void tick(std::uint64_t now_ns);
    void check(SampledThread& thread, std::uint64_t now_ns, std::uint64_t missed);
    std::uint64_t patience_ns(const SampledThread& thread, const SchedStat& ticked, const SchedStat& now) const;
    bool has_left_anew(SampledThread& thread);
    void gil_tick(SampledProcess& process, std::uint64_t now_ns);
    void look_for_blocks(SampledThread& thread, std::uint64_t now_ns);
    void check_later(SampledThread& thread, std::uint64_t now_ns);
    void give_clock(SampledThread& thread);
    bool open_clock(SampledThread& thread);
    std::uint64_t between(std::uint64_t least_ns, std::uint64_t most_ns);
    double drawn_factor();
    std::uint64_t drawn_period_ns();
    std::uint64_t drawn_tick_ns(std::uint64_t passed_ns);
    // Whether it is known of every period of its CPU time that it is over.
    bool own_clock_is_exact(const SampledThread& thread) const {
        return kernel_side_ || (thread.clock.valid() && !user_only_);
    }

    // taking.cpp
    struct Look {
        bool taken = false;  // stack_ holds the thread's stack
        Loss loss = Loss::kNone;
        SchedStat stat;
        std::uint64_t at_ns = 0;    // when; 0: now
        bool moving = false;        // the thread may have run meanwhile
        std::uint64_t held_ns = 0;  // how long it has waited for us
    };
    void sample_at_tick(SampledThread& thread, int cpu, const Tick& tick, const Wake& wake);
    Look look_at_waiting(SampledThread& thread, int cpu, const Tick& tick, const Wake& wake);
    std::optional<Look> look_between(SampledThread& thread, std::uint64_t switches, const Tick* tick, const Wake& wake);
    bool stack_is_of(const Tick& tick);
    void sample_running(SampledThread& thread, std::uint64_t now_ns);
    bool seize_late(SampledThread& thread, std::uint64_t now_ns);
    void interrupt(SampledThread& thread);
    bool is_due(SampledThread& thread, std::uint64_t now_ns);
    Look look_at_stopped(SampledThread& thread);
    void take_moving(SampledThread& thread);
    Look look_at(SampledThread& thread, const ThreadPosition& position, PythonStack& stack);
    Look look_at(SampledThread& thread, const ThreadPosition& position, PythonStack& stack, const KernelSample* sample);
    static bool is_where_it_left(const SampledThread& thread, const KernelSample& sample);
    bool behind();
    // Whether processes may come that nobody attaches to.
    bool follows_others() const { return options_.machine || options_.follow_processes; }
    bool is_publishing_due(std::uint64_t now_ns);

    // changes.cpp
    void take_kernel_samples();
    void take_record(std::span<const std::byte> record, std::vector<Change>::const_iterator& next);
    void take_end_of_unknown(const weft_return& told);
    void take_change(const Change& change);
    void take_end_of_process(pid_t pid);
    void take_fork(const Change& change, SampledProcess* process);
    void scan_all();

    // kernel_ticks.cpp
    void tell_kernel(SampledProcess& process);
    void tell_kernel(SampledProcess& process, pid_t pid);
    void deliver_kernel_sample();
    SampledProcess* meet_process();
    void meet_all();
    bool hides_kernel() const;
    SampledThread& thread_of_kernel_sample(SampledProcess& process);
    void take_kernel_sample(SampledThread& thread);
    void remember_state(SampledThread& thread);
    void learn_codes(SampledProcess& process);

    // kernel_switches.cpp
    bool tells_switches() const { return kernel_side_ && kernel_side_->tells_switches(); }
    static std::optional<weft_return> return_of(std::span<const std::byte> record);
    void take_leaving(SampledThread& thread);
    State state_of_leaving(const SampledThread& thread, Address& gil_holder);
    void take_return(SampledThread& thread, const weft_return& told);
    void give_stay(SampledThread& thread, const Stay& stay, std::uint64_t blocked_ns, std::uint64_t ready_ns);
    void blame(SampledThread& thread, const Stay& stay, std::uint64_t weight_ns);
    static void was_read_away(SampledThread& thread, const Away& away);
    void share_stays(SampledThread& thread);
    std::uint64_t end_told_thread(SampledThread& thread, std::uint64_t now_ns);

    // kernel_allocations.cpp
    void take_allocation(SampledThread& thread);

    // resting.cpp
    static bool switches_often(const SampledThread& thread, const Stillness& now);
    static RegisterSet registers_at_rest(const SampledThread& thread, const ThreadActivity& activity);
    void take_still(SampledThread& thread, const SchedStat& before, const ThreadActivity& activity);

    // accounting.cpp
    bool leave_to_next_tick(SampledThread& thread, Loss loss);
    void come_late(SampledThread& thread);
    void add_late(SampledThread& thread, std::uint64_t ticks, std::uint64_t over_ns);
    void account_hold(SampledThread& thread, const SchedStat& stat, std::uint64_t seen_ns);
    void spare(SampledThread& thread, std::uint64_t spent_ns);
    void account_look(SampledThread& thread, const Look& look);
    Timeline::Claim claim(const SampledThread& thread, bool exact) const;
    void account_running(SampledThread& thread, std::uint64_t now_ns, const Look& look, std::uint32_t stack);
    void account_holder(SampledThread& thread, std::uint64_t now_ns, std::uint32_t stack);
    void lose(SampledThread& thread, Loss loss);

    // weaving.cpp
    void weave(SampledThread& thread, const RegisterSet& registers, Memory& memory, const KernelSample* sample);
    std::uint32_t intern(SampledThread& thread);
    void make_keys();
    void account_kernel(SampledProcess& process);
    std::uint32_t mark_as_cut(SampledProcess& process);
    void account_native(SampledProcess& process);
    void note_kernel(const KernelChain& chain);
    void note_kernel(const std::vector<std::string>& functions);

    // late.cpp
    static bool lacks_code(const NativeStack& native);  // it ends where code is that we may come to know
    void ask_for_code(SampledProcess& process, Address pc);
    void take_code(SampledProcess& process, const CodeMap& code);
    void keep_for_later(SampledProcess& process, const RegisterSet& registers);
    std::uint32_t add_late_stack(SampledProcess& process, LateStack late, std::uint32_t root);
    void complete_late(SampledProcess& process, bool give_up);

    // following.cpp
    AttachResult attach_now(pid_t pid, std::uint32_t parent, bool launching, const std::optional<PythonPlace>& python,
                            const CodeMap& code);
    void give_python(SampledProcess& process, const PythonPlace& place);
    SampledProcess& add_process(pid_t pid, std::uint32_t parent, bool launching);
    void tell(const SampledProcess& process, Event::Kind kind, std::int64_t value, std::uint32_t parent = 0);
    void tell(const SampledThread& thread, Event::Kind kind);
    SampledProcess* find_process(pid_t pid);
    bool is_known(pid_t tid, const SampledThread* thread) const;  // it is, and has not ended meanwhile
    SampledProcess& add_child(pid_t pid, SampledProcess* parent);
    struct Beginning {
        std::uint64_t at_ns = 0;
        SchedStat stat;
        std::string name;  // for one that has ended since
    };
    SampledThread* add_thread(SampledProcess& process, pid_t tid, SampledThread::Trace trace,
                              const std::optional<Beginning>& since = std::nullopt);
    AttachResult seize_all(SampledProcess& process);
    void scan_processes(std::uint64_t now_ns);
    void scan_children(SampledProcess& process);
    void scan_threads(SampledProcess& process, std::uint64_t now_ns);
    void take_stops();
    void take_stop(pid_t tid, const tracer::Stop& stop);
    void free_unreported();
    SampledThread* adopt(pid_t tid);
    void replaced_by_exec(SampledProcess& before, SampledThread::Trace trace);
    void end_thread(SampledThread& thread);
    void end_process(SampledProcess& process, int status);

    // What an event of epoll_ is about; the low half is the process's number or the tid.
    static constexpr std::uint64_t kTimerTag = 1ULL << 32;
    static constexpr std::uint64_t kWakeupTag = 2ULL << 32;
    static constexpr std::uint64_t kProcessTag = 4ULL << 32;
    static constexpr std::uint64_t kRingTag = 8ULL << 32;

    std::mutex turn_;  // of what follows: held by who samples, the loop or a reader
    const SamplerOptions options_;
    const std::uint64_t period_ns_;

    std::map<std::uint32_t, std::unique_ptr<SampledProcess>> processes_;
    std::unordered_map<pid_t, SampledProcess*> by_pid_;
    std::unordered_map<pid_t, SampledThread*> by_tid_;
    std::uint32_t next_process_ = 1;
    std::uint32_t next_thread_ = 1;
    std::uint32_t next_code_ = 1;
    bool user_only_ = false;       // the kernel gives us ticks in user mode alone
    bool clocks_refused_ = false;  // and none at all
    bool ever_attached_ = false;
    bool ending_ = false;         // the recording, and not a thread
    bool sigchld_ = false;        // one has come, and what it tells of has not been taken
    bool kernel_hidden_ = false;  // the thread of the last look was in the kernel, which did not tell where
    std::unique_ptr<KernelSide> kernel_side_;
    std::unique_ptr<Sideband> sideband_;  // with it
    // Between looks at the kernel's ring, which wakes us where it fills sooner.
    static constexpr std::uint64_t kLookPause = 100'000'000;
    const std::uint64_t soon_pause_ns_;  // the same while look_soon_
    std::uint64_t ring_looks_ = 0;
    std::vector<Change> changes_;
    std::vector<pid_t> ended_;                                  // threads, by the last of these
    std::unordered_map<pid_t, std::uint64_t> ended_processes_;  // the look at the rings that told of it
    // Of the whole machine: processes that ours have forked, and that have not been sampled yet.
    struct Child {
        std::uint32_t parent = 0;
        std::uint64_t exec_ns = 0;  // when the kernel was told that it is no copy of its parent any more; 0: it is one
    };
    std::unordered_map<pid_t, Child> children_;
    KernelSample kernel_sample_;
    GilBlame gil_blame_;
    StackTable stacks_;
    PythonStack stack_;
    PythonStack second_look_;
    LimitedMemory native_look_;
    StackCopy stack_copy_;
    NativeStack native_;
    WovenStack woven_;               // stack_ and native_
    std::optional<LateStack> late_;  // what is to be kept of the last look
    std::size_t late_bytes_ = 0;     // of the stacks that are kept
    std::vector<FrameKey> kernel_;   // where in the kernel the thread of the last look was
    KernelNames kernel_names_;
    std::vector<std::string> kernel_functions_;
    std::vector<FrameKey> keys_;
    Batch batch_;
    Holds holds_;

    std::minstd_rand random_;
    std::uint64_t next_tick_ns_ = 0;  // of the wall clock
    std::uint64_t deadline_ns_ = 0;   // the time that the timer is set to
    std::uint64_t next_free_ns_ = 0;
    std::uint64_t next_publish_ns_ = 0;
    bool urgent_ = false;    // there is something to publish sooner
    bool look_soon_ = true;  // at the last look the ring left something to be read, which may change

    Descriptor epoll_;
    Descriptor quiet_;  // that, and what ends a long pause besides: the kernel has something to tell of processes
    Descriptor timer_;
    Descriptor wakeup_;         // commands, and SIGCHLD that another thread has got
    Descriptor batches_ready_;  // counts batches_

    bool stopping_ = false;
    bool finished_ = false;
    std::mutex mutex_;  // of these two and what follows
    std::deque<Batch> batches_;
    std::vector<Command> commands_;
    std::vector<Tick> ticks_;  // of the ring at hand
    Readers readers_;
    std::thread thread_;
};

}  // namespace weft
