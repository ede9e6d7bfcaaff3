// Processes and threads that come and go, and what tracees report.

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sampler/sampler.h"

namespace weft {

namespace {

constexpr int kMaxRounds = 100;                                // of looking for tasks that were made while we looked
constexpr std::uint64_t kScanPeriod = 50'000'000;              // ns
constexpr std::uint64_t kTracersScanPeriod = 5 * kScanPeriod;  // who is told of new threads, and of the end of its own
constexpr std::uint64_t kNamesPeriod = 1'000'000'000;
constexpr std::uint64_t kLongestFork = 10'000'000'000;  // ns; with 12 GB one takes 0.2 s

}  // namespace

AttachResult Sampler::attach_now(pid_t pid, std::uint32_t parent, bool launching,
                                 const std::optional<PythonPlace>& python, const CodeMap& code) {
    if (find_process(pid) != nullptr) {
        return AttachResult::kOk;
    }
    SampledProcess& process = add_process(pid, parent, launching);
    process.code = code;
    if (python) {
        give_python(process, *python);
    } else {
        tell_kernel(process);
    }
    for (const pid_t tid : list_threads(pid)) {
        add_thread(process, tid, SampledThread::Trace::kNot);
    }
    AttachResult result = process.threads.empty() ? AttachResult::kGone : AttachResult::kOk;
    // All threads, also those that stand still: the exec of a thread that is not traced would go unseen.
    if (result == AttachResult::kOk && options_.stop_threads) {
        result = seize_all(process);
    }
    if (result != AttachResult::kOk) {
        end_process(process, -1);
        return result;
    }
    ever_attached_ = true;
    if (options_.follow_processes) {
        const bool told = options_.stop_threads || kernel_side_;  // of each fork that begins from now on
        process.scan_children_until_ns = told ? monotonic_ns() + kLongestFork : kNever;
        scan_children(process);
    }
    return result;
}

// Children that nobody told of: those made before we came, and the one of a fork in whose midst the process was seized
// (kernel/fork.c, kernel_clone() asks at its beginning whether a tracer is to be told). Without a tracer: all.
void Sampler::scan_children(SampledProcess& process) {
    std::set<pid_t> children;
    for (const pid_t child : list_children(process.pid)) {
        children.insert(child);
        if (process.children.contains(child)) {
            continue;
        }
        const ThreadStatus status = read_thread_status(child);
        if (status.tracer == 0 && !status.ended) {
            // One that ends just now is no loss.
            static_cast<void>(attach_now(child, process.id, false, std::nullopt, {}));
        }
    }
    process.children = std::move(children);
}

void Sampler::give_python(SampledProcess& process, const PythonPlace& place) {
    process.place = place;
    process.python = std::make_unique<PythonTarget>(place.layout, place.addresses, next_code_);
    process.python_state = SampledProcess::Python::kFound;
    process.weaver = std::make_unique<Weaver>(place.layout);
    tell_kernel(process);
    process.python_since_ns = monotonic_ns();
}

void Sampler::tell(const SampledProcess& process, Event::Kind kind, std::int64_t value, std::uint32_t parent) {
    if (process.launching) {
        return;
    }
    Event event;
    event.kind = kind;
    event.at_ns = monotonic_ns();
    event.process = process.id;
    event.parent = parent;
    event.id = process.pid;
    event.value = value;
    batch_.events.push_back(event);
    urgent_ = true;  // Python's side has to look at it
}

void Sampler::tell(const SampledThread& thread, Event::Kind kind) {
    if (thread.process.launching) {
        return;
    }
    Event event;
    event.kind = kind;
    event.at_ns = monotonic_ns();
    event.process = thread.process.id;
    event.thread = thread.id;
    event.id = thread.tid;
    event.name = thread.name;
    batch_.events.push_back(event);
}

SampledProcess* Sampler::find_process(pid_t pid) {
    const auto found = by_pid_.find(pid);
    return found == by_pid_.end() ? nullptr : found->second;
}

bool Sampler::is_known(pid_t tid, const SampledThread* thread) const {
    const auto found = by_tid_.find(tid);
    return found != by_tid_.end() && found->second == thread;
}

// Seizes every thread, also those that are made meanwhile: from then on the kernel hands us each new one. Threads that
// cannot be had (another tracer holds them, or the first thread has ended before the others) are left out, unless it is
// all of them.
AttachResult Sampler::seize_all(SampledProcess& process) {
    AttachResult result = AttachResult::kGone;
    bool found_new = true;
    for (int round = 0; found_new && round < kMaxRounds; ++round) {
        found_new = false;
        for (const pid_t tid : list_threads(process.pid)) {
            SampledThread* thread = add_thread(process, tid, SampledThread::Trace::kNot);
            if (thread == nullptr || thread->trace != SampledThread::Trace::kNot) {
                continue;
            }
            const tracer::Result seized = tracer::seize(tid, options_.follow_processes);
            if (seized == tracer::Result::kOk) {
                thread->trace = SampledThread::Trace::kRunning;
                give_clock(*thread);
                result = AttachResult::kOk;
                found_new = true;
            } else if (seized == tracer::Result::kDenied && result == AttachResult::kGone) {
                result = AttachResult::kDenied;
            }
        }
    }
    return result;
}

// Who adds it tells the kernel of it, with all that is known: what the kernel samples before it knows of Python has no Python frames.
SampledProcess& Sampler::add_process(pid_t pid, std::uint32_t parent, bool launching) {
    const std::uint32_t id = next_process_++;
    auto& process = processes_[id] = std::make_unique<SampledProcess>(id, pid);
    by_pid_[pid] = process.get();
    process->launching = launching;
    // For threads that wait throughout; those that run are met as they do.
    process->next_scan_ns = options_.machine && !tells_switches() ? kNever : 0;
    process->next_names_ns = monotonic_ns() + kNamesPeriod;
    process->image = read_image(pid);
    const long opened = syscall(SYS_pidfd_open, pid, 0);
    if (opened < 0 && errno == ESRCH && kernel_side_) {
        ended_processes_[pid] = ring_looks_;  // nobody may tell of it any more
    }
    process->pid_descriptor = Descriptor(static_cast<int>(opened));
    if (process->pid_descriptor.valid()) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = kProcessTag | id;
        epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process->pid_descriptor.get(), &event);
    }
    tell(*process, Event::Kind::kProcessStart, 0, parent);
    return *process;
}

// A process that one of ours has forked: its memory is a copy of its parent's, so its Python is where its parent's is.
SampledProcess& Sampler::add_child(pid_t pid, SampledProcess* parent) {
    SampledProcess& child =
        add_process(pid, parent == nullptr ? 0 : parent->id, parent != nullptr && parent->launching);
    if (parent != nullptr) {
        child.python_state = parent->python_state;
        child.code = parent->code;
    }
    if (parent != nullptr && parent->python) {
        give_python(child, parent->place);
        tell(child, Event::Kind::kPythonInherited, 0, parent->id);
    } else {
        tell_kernel(child);
    }
    return child;
}

// The thread, new or known; null if it has ended. Of one that the kernel has sampled (`since`) what it has told is enough.
SampledThread* Sampler::add_thread(SampledProcess& process, pid_t tid, SampledThread::Trace trace,
                                   const std::optional<Beginning>& since) {
    if (const auto known = process.threads.find(tid); known != process.threads.end()) {
        return known->second.get();
    }
    ThreadFiles files(process.pid, tid);
    SchedStat stat;
    const bool there = files.read(stat);
    if (!there && !since) {
        return nullptr;
    }
    const Beginning begin = since.value_or(Beginning{monotonic_ns(), stat});
    Timeline timeline(options_.mode, period_ns_, begin.at_ns, begin.stat);
    if (tells_switches()) {
        const std::uint64_t now_ns = monotonic_ns();
        if (there) {
            kernel_side_->tell_thread(tid, now_ns, stat.cpu_ns);
        }
        timeline = Timeline(period_ns_, now_ns);
    }
    auto thread = std::make_unique<SampledThread>(process, next_thread_++, tid, std::move(timeline));
    if (tells_switches()) {
        const std::optional<weft_thread> told = kernel_side_->thread(tid);
        thread->account_ns = told ? told->times.began_ns : 0;
    }
    if (kernel_side_ && (options_.mode == Mode::kCpu || options_.mode == Mode::kAlloc)) {
        thread->next_check_ns = kNever;  // its samples come by themselves
    }
    thread->trace = trace;
    thread->files = std::move(files);
    thread->name = there ? read_thread_name(process.pid, tid) : since->name;
    thread->python.inner_tid = read_thread_status(tid).inner_tid;
    if (trace != SampledThread::Trace::kNot || !options_.stop_threads) {
        give_clock(*thread);
    }
    tell(*thread, Event::Kind::kThreadStart);
    publish_soon();
    by_tid_[tid] = thread.get();
    if (!there) {
        ended_.push_back(tid);
    }
    return (process.threads[tid] = std::move(thread)).get();
}

void Sampler::scan_processes(std::uint64_t now_ns) {
    std::vector<SampledProcess*> replaced;
    std::vector<SampledProcess*> parents;
    for (const auto& [id, process] : processes_) {
        if (process->launching || process->next_scan_ns > now_ns) {
            continue;
        }
        process->next_scan_ns =
            kernel_side_ ? kNever : now_ns + (options_.stop_threads ? kTracersScanPeriod : kScanPeriod);
        // A tracer is told.
        const std::string image = options_.stop_threads ? std::string() : read_image(process->pid);
        if (process->image.empty()) {
            process->image = image;
        }
        if (!image.empty() && image != process->image) {
            replaced.push_back(process.get());
        } else {
            scan_threads(*process, now_ns);
            if (now_ns < process->scan_children_until_ns) {
                parents.push_back(process.get());
            }
        }
    }
    for (SampledProcess* process : parents) {
        scan_children(*process);
    }
    for (SampledProcess* process : replaced) {
        replaced_by_exec(*process, SampledThread::Trace::kNot);
    }
}

void Sampler::scan_threads(SampledProcess& process, std::uint64_t now_ns) {
    std::vector<pid_t> tids = list_threads(process.pid);
    for (const pid_t tid : tids) {
        add_thread(process, tid, SampledThread::Trace::kNot);
    }
    std::ranges::sort(tids);
    std::vector<SampledThread*> ended;
    const bool look_at_names = now_ns >= process.next_names_ns;
    if (look_at_names) {
        process.next_names_ns = now_ns + kNamesPeriod;
    }
    for (const auto& [tid, thread] : process.threads) {
        // A tracee's end is reported, and must be, before the kernel lets it go.
        if (thread->trace == SampledThread::Trace::kNot && !std::ranges::binary_search(tids, tid)) {
            ended.push_back(thread.get());
        } else if (look_at_names) {
            std::string name = read_thread_name(process.pid, tid);
            if (!name.empty() && name != thread->name) {
                thread->name = std::move(name);
                tell(*thread, Event::Kind::kThreadName);
            }
        }
    }
    for (SampledThread* thread : ended) {
        end_thread(*thread);
    }
}

void Sampler::take_stops() {
    tracer::Stop stop;
    while (const pid_t tid = tracer::next_stop(stop)) {
        take_stop(tid, stop);
    }
}

void Sampler::take_stop(pid_t tid, const tracer::Stop& stop) {
    const auto known = by_tid_.find(tid);
    if (stop.kind == tracer::Stop::Kind::kEnd) {
        if (known == by_tid_.end()) {
            return;
        }
        SampledProcess& process = known->second->process;
        if (tid == process.pid) {
            end_process(process, stop.status);
        } else {
            end_thread(*known->second);
        }
        return;
    }
    SampledThread* thread = known == by_tid_.end() ? adopt(tid) : known->second;
    if (thread == nullptr) {
        tracer::detach(tid);  // not one that we follow
        return;
    }
    if (stop.kind == tracer::Stop::Kind::kExec) {
        replaced_by_exec(thread->process, SampledThread::Trace::kRunning);
        tracer::resume(tid, 0);
        return;
    }
    if (stop.kind == tracer::Stop::Kind::kNewTask) {
        // Before it reports by itself, which it does once it gets a processor: all others may have ended by then, and
        // with the last one the recording.
        if (const pid_t made = tracer::new_task(tid); made != 0 && !by_tid_.contains(made)) {
            adopt(made);
        }
    }
    // Whatever it stopped for, it stands still now.
    const std::uint64_t seen_ns = monotonic_ns();
    const bool sample = thread->trace == SampledThread::Trace::kInterrupted;
    Look look;
    if (sample) {
        look = look_at_stopped(*thread);
    }
    if (stop.kind == tracer::Stop::Kind::kGroup) {
        tracer::listen(tid);
        thread->trace = SampledThread::Trace::kListening;
    } else {
        tracer::resume(tid, stop.signal);
        thread->trace = SampledThread::Trace::kRunning;
    }
    if (sample) {
        account_hold(*thread, look.stat, seen_ns);
        account_look(*thread, look);
    }
}

// A stop is reported once. Where the target is a child of our own process, another of our threads that waits for it takes
// the report away (wait(2) is for all threads), and the target would stand still for ever.
void Sampler::free_unreported() {
    std::vector<std::pair<pid_t, tracer::Stop>> found;
    for (const auto& [tid, thread] : by_tid_) {
        const std::optional<SchedStat> before = std::exchange(thread->in_stop, std::nullopt);
        if (thread->trace != SampledThread::Trace::kRunning && thread->trace != SampledThread::Trace::kInterrupted) {
            continue;
        }
        const std::optional<tracer::Stop> stop = tracer::current_stop(tid);
        SchedStat stat;
        if (!stop || !thread->files.read(stat)) {
            continue;
        }
        if (before == stat) {
            found.emplace_back(tid, *stop);  // it has not run since the last time
        } else {
            thread->in_stop = stat;  // perhaps its report is on the way
        }
    }
    for (const auto& [tid, stop] : found) {
        take_stop(tid, stop);
    }
}

// A task that the kernel has seized for us because its maker was: a thread, or the first thread of a new process.
SampledThread* Sampler::adopt(pid_t tid) {
    const ThreadStatus status = read_thread_status(tid);
    if (status.process == 0 || status.tracer == 0) {
        return nullptr;  // it has ended, and that has been reported: before its maker's stop, perhaps
    }
    SampledProcess* process = find_process(status.process);
    if (process == nullptr) {
        if (!options_.follow_processes) {
            return nullptr;
        }
        process = &add_child(status.process, find_process(status.parent));
    }
    return add_thread(*process, tid, SampledThread::Trace::kRunning);
}

// exec(2): the thread that called it goes on as the only one of a new program, under the process's own number.
void Sampler::replaced_by_exec(SampledProcess& before, SampledThread::Trace trace) {
    const pid_t pid = before.pid;
    const std::uint32_t parent = before.launching ? 0 : before.id;
    const std::uint64_t scan_children_until_ns = before.scan_children_until_ns;
    std::set<pid_t> children = std::move(before.children);
    end_process(before, -1);
    SampledProcess& after = add_process(pid, parent, false);
    after.scan_children_until_ns = scan_children_until_ns;
    after.children = std::move(children);
    tell_kernel(after);
    after.walked_since_ns = monotonic_ns();
    add_thread(after, pid, trace);
}

void Sampler::end_thread(SampledThread& thread) {
    SampledProcess& process = thread.process;
    const std::uint64_t now_ns = monotonic_ns();
    if (thread.trace == SampledThread::Trace::kInterrupted && !ending_) {
        process.losses.add(Loss::kExited, 1, 0);
    }
    if (SchedStat stat;
        ending_ && !tells_switches() && thread.blocked && thread.files.read(stat) && stat == *thread.blocked) {
        thread.timeline.still_standing(now_ns);
    }
    const std::uint64_t unseen = tells_switches() ? end_told_thread(thread, now_ns) : thread.timeline.end(now_ns);
    if (unseen != 0) {
        process.losses.add(Loss::kUnseen, 1, unseen);
    }
    collect(thread);
    tell(thread, Event::Kind::kThreadEnd);
    by_tid_.erase(thread.tid);
    process.threads.erase(thread.tid);
}

void Sampler::end_process(SampledProcess& process, int status) {
    while (!process.threads.empty()) {
        end_thread(*process.threads.begin()->second);
    }
    complete_late(process, true);
    if (!process.launching) {
        batch_.losses.push_back({process.id, process.losses});
    }
    if (find_process(process.pid) == &process) {  // else its number is another's by now
        by_pid_.erase(process.pid);
        if (kernel_side_) {
            kernel_side_->forget(process.pid);
        }
    }
    tell(process, Event::Kind::kProcessEnd, status);
    processes_.erase(process.id);
}

}  // namespace weft
