// Processes and threads that come and go, and what tracees report.

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sampler/sampler.h"

namespace weft {

namespace {

constexpr int kMaxRounds = 100;  // of looking for tasks that were made while we looked
constexpr std::uint64_t kNameRounds = 20;

}  // namespace

AttachResult Sampler::attach_now(pid_t pid, bool seize) {
    if (std::ranges::any_of(processes_, [&](const auto& entry) { return entry.second->pid == pid; })) {
        return AttachResult::kOk;
    }
    SampledProcess& process = add_process(pid, 0, false);
    for (const pid_t tid : list_threads(pid)) {
        add_thread(process, tid, SampledThread::Trace::kNot);
    }
    AttachResult result = process.threads.empty() ? AttachResult::kGone : AttachResult::kOk;
    if (result == AttachResult::kOk && options_.stop_threads && (seize || options_.follow_processes)) {
        result = seize_all(process);
    }
    if (result != AttachResult::kOk) {
        end_process(process, -1);
        return result;
    }
    ever_attached_ = true;
    if (options_.follow_processes) {
        for (const pid_t child : list_children(pid)) {
            static_cast<void>(attach_now(child, true));  // one that has just ended is no loss
        }
    }
    return result;
}

// Seizes every thread, also those that are made meanwhile: from then on the kernel hands us each new one.
AttachResult Sampler::seize_all(SampledProcess& process) {
    bool found_new = true;
    for (int round = 0; found_new && round < kMaxRounds; ++round) {
        found_new = false;
        for (const pid_t tid : list_threads(process.pid)) {
            SampledThread* thread = add_thread(process, tid, SampledThread::Trace::kNot);
            if (thread == nullptr || thread->trace != SampledThread::Trace::kNot) {
                continue;
            }
            const tracer::Result result = tracer::seize(tid, options_.follow_processes);
            if (result == tracer::Result::kDenied) {
                return AttachResult::kDenied;
            }
            if (result == tracer::Result::kOk) {
                thread->trace = SampledThread::Trace::kRunning;
                found_new = true;
            }
        }
    }
    return AttachResult::kOk;
}

SampledProcess& Sampler::add_process(pid_t pid, std::uint32_t parent, bool inherited_python) {
    const std::uint32_t id = next_process_++;
    auto& process = processes_[id] = std::make_unique<SampledProcess>(id, pid);
    process->pid_descriptor = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (process->pid_descriptor.valid()) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = kProcessTag | id;
        epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process->pid_descriptor.get(), &event);
    }
    Event event;
    event.kind = Event::Kind::kProcessStart;
    event.at_ns = monotonic_ns();
    event.process = id;
    event.parent = parent;
    event.id = pid;
    event.value = inherited_python ? 1 : 0;
    batch_.events.push_back(event);
    next_publish_ns_ = 0;  // Python's side has to look at it
    return *process;
}

// The thread, new or known; null if it has ended.
SampledThread* Sampler::add_thread(SampledProcess& process, pid_t tid, SampledThread::Trace trace) {
    if (const auto known = process.threads.find(tid); known != process.threads.end()) {
        return known->second.get();
    }
    ThreadFiles files(process.pid, tid);
    SchedStat stat;
    if (!files.read(stat)) {
        return nullptr;
    }
    const std::uint64_t now_ns = monotonic_ns();
    auto thread = std::make_unique<SampledThread>(process, next_thread_++, tid,
                                                  Timeline(options_.mode, period_ns_, now_ns, stat));
    thread->trace = trace;
    thread->files = std::move(files);
    thread->name = read_thread_name(process.pid, tid);
    thread->python.inner_tid = read_thread_ids(tid).inner_tid;
    open_cpu_clock(*thread);
    Event event;
    event.kind = Event::Kind::kThreadStart;
    event.at_ns = now_ns;
    event.process = process.id;
    event.thread = thread->id;
    event.id = tid;
    event.name = thread->name;
    batch_.events.push_back(event);
    by_tid_[tid] = thread.get();
    return (process.threads[tid] = std::move(thread)).get();
}

void Sampler::scan_threads(SampledProcess& process, std::uint64_t now_ns) {
    const std::vector<pid_t> tids = list_threads(process.pid);
    for (const pid_t tid : tids) {
        add_thread(process, tid, SampledThread::Trace::kNot);
    }
    std::vector<SampledThread*> ended;
    const bool look_at_names = ++process.scans % kNameRounds == 0;
    for (const auto& [tid, thread] : process.threads) {
        // A tracee's end is reported, and must be, before the kernel lets it go.
        if (thread->trace == SampledThread::Trace::kNot && std::ranges::find(tids, tid) == tids.end()) {
            ended.push_back(thread.get());
        } else if (look_at_names) {
            std::string name = read_thread_name(process.pid, tid);
            if (!name.empty() && name != thread->name) {
                thread->name = std::move(name);
                Event event;
                event.kind = Event::Kind::kThreadName;
                event.at_ns = now_ns;
                event.process = process.id;
                event.thread = thread->id;
                event.id = tid;
                event.name = thread->name;
                batch_.events.push_back(event);
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
        replaced_by_exec(*thread);
        tracer::resume(tid, 0);
        return;
    }
    // Whatever it stopped for, it stands still now.
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
        account_stopped(*thread, look, monotonic_ns() - thread->interrupted_ns);
    }
}

// A task that the kernel has seized for us because its maker was: a thread, or the first thread of a new process.
SampledThread* Sampler::adopt(pid_t tid) {
    const ThreadIds ids = read_thread_ids(tid);
    if (ids.process == 0) {
        return nullptr;
    }
    const auto by_pid = [&](pid_t pid) {
        return std::ranges::find_if(processes_, [&](const auto& entry) { return entry.second->pid == pid; });
    };
    auto found = by_pid(ids.process);
    if (found == processes_.end()) {
        if (!options_.follow_processes) {
            return nullptr;
        }
        const auto parent = by_pid(ids.parent);
        const bool has_parent = parent != processes_.end();
        SampledProcess& child = add_process(ids.process, has_parent ? parent->first : 0,
                                            has_parent && parent->second->python != nullptr);
        if (has_parent && parent->second->python) {
            // Its memory is a copy of its parent's: so is its Python.
            child.layout = parent->second->layout;
            child.addresses = parent->second->addresses;
            child.python = std::make_unique<PythonTarget>(child.layout, child.addresses, next_code_);
        }
        if (has_parent) {
            child.python_state = parent->second->python_state;
        }
        found = by_pid(ids.process);
    }
    return add_thread(*found->second, tid, SampledThread::Trace::kRunning);
}

// exec(2): the thread goes on as the only one of a new program, under the process's own number.
void Sampler::replaced_by_exec(SampledThread& thread) {
    SampledProcess& before = thread.process;
    const pid_t pid = before.pid;
    const std::uint32_t parent = before.id;
    end_process(before, -1);
    SampledProcess& after = add_process(pid, parent, false);
    add_thread(after, pid, SampledThread::Trace::kRunning);
}

void Sampler::end_thread(SampledThread& thread) {
    SampledProcess& process = thread.process;
    const std::uint64_t now_ns = monotonic_ns();
    if (thread.trace == SampledThread::Trace::kInterrupted) {
        process.losses.add(Loss::kExited, 1, 0);
    }
    if (const std::uint64_t unseen = thread.timeline.end(now_ns); unseen != 0) {
        process.losses.add(Loss::kUnseen, 1, unseen);
    }
    collect(thread);
    Event event;
    event.kind = Event::Kind::kThreadEnd;
    event.at_ns = now_ns;
    event.process = process.id;
    event.thread = thread.id;
    event.id = thread.tid;
    batch_.events.push_back(event);
    by_tid_.erase(thread.tid);
    process.threads.erase(thread.tid);
}

void Sampler::end_process(SampledProcess& process, int status) {
    while (!process.threads.empty()) {
        end_thread(*process.threads.begin()->second);
    }
    batch_.losses.push_back({process.id, process.losses});
    Event event;
    event.kind = Event::Kind::kProcessEnd;
    event.at_ns = monotonic_ns();
    event.process = process.id;
    event.id = process.pid;
    event.value = status;
    batch_.events.push_back(event);
    processes_.erase(process.id);
}

}  // namespace weft
