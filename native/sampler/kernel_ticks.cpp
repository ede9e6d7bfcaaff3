// Samples that the kernel has taken: collector bpf.

#include <algorithm>
#include <cstring>

#include "sampler/allocation.h"
#include "sampler/kernel_process.h"
#include "sampler/sampler.h"

namespace weft {

// What its walk has to know of a process, as far as that is known now.
void Sampler::tell_kernel(SampledProcess& process) { tell_kernel(process, process.pid); }

// The same of one that is a copy of it.
void Sampler::tell_kernel(SampledProcess& process, pid_t pid) {
    if (!kernel_side_ || process.launching) {
        return;
    }
    weft_process told = kernel_process(process.code, process.python ? &process.place : nullptr, tells_switches());
    told.follows = options_.follow_processes ? 1 : 0;
    if (!kernel_side_->tell(pid, told)) {
        process.losses.add(Loss::kNoRoom, 1, 0);
    }
}

// kernel_sample_, to the thread that it is of.
void Sampler::deliver_kernel_sample() {
    const weft_sample& head = kernel_sample_.head();
    SampledProcess* process = find_process(static_cast<pid_t>(head.pid));
    if (process == nullptr && options_.machine) {
        process = meet_process();
        if (process == nullptr) {
            return;  // it is not to be recorded
        }
    }
    if (process == nullptr) {
        ++batch_.account.samples_dropped;  // it has ended before anybody knew of it
        return;
    }
    if (process->launching) {
        return;
    }
    if (head.time_ns < process->walked_since_ns) {
        kernel_sample_.forget_walk();
    }
    SampledThread& thread = thread_of_kernel_sample(*process);
    if (head.record == WEFT_OUT) {
        take_leaving(thread);
    } else if (head.record == WEFT_ALLOCATION) {
        take_allocation(thread);
    } else {
        take_kernel_sample(thread);
    }
}

// The process of kernel_sample_, of which nothing was known; null: it is not to be recorded.
SampledProcess* Sampler::meet_process() {
    const auto pid = static_cast<pid_t>(kernel_sample_.head().pid);
    if (!options_.machine || !options_.machine->lets(pid)) {
        if (!ended_processes_.contains(pid)) {
            kernel_side_->ignore(pid);
        }
        return nullptr;
    }
    const auto known = children_.extract(pid);
    const Child child = known.empty() ? Child{} : known.mapped();
    const auto parent = processes_.find(child.parent);
    if (child.exec_ns == 0 && parent != processes_.end()) {
        return &add_child(pid, parent->second.get());
    }
    SampledProcess& process = add_process(pid, parent == processes_.end() ? 0 : child.parent, false);
    if (kernel_sample_.head().is_kernel_task != 0) {
        process.python_state = SampledProcess::Python::kNone;
    }
    tell_kernel(process);
    process.walked_since_ns = child.exec_ns;
    return &process;
}

// Where times off the CPU count: the processes that are there already, some of which may not come to a CPU meanwhile.
void Sampler::meet_all() {
    if (!options_.machine || !tells_switches()) {
        return;
    }
    for (const pid_t pid : list_processes()) {
        if (!options_.machine->lets(pid)) {
            kernel_side_->ignore(pid);
        } else if (!is_kernel_task(pid)) {
            tell_kernel(add_process(pid, 0, false));
        }
    }
}

// The thread that kernel_sample_ is of.
SampledThread& Sampler::thread_of_kernel_sample(SampledProcess& process) {
    const weft_sample& head = kernel_sample_.head();
    // It has run for a period, by chance: its account is to begin with that.
    SchedStat before = kernel_sample_.stat();
    before.cpu_ns -= std::min(before.cpu_ns, period_ns_);
    const std::string name(head.name, strnlen(head.name, sizeof head.name));
    return *add_thread(process, static_cast<pid_t>(head.tid), SampledThread::Trace::kNot,
                       Beginning{head.time_ns - period_ns_, before, name});
}

// Of kernel_sample_, which is not looked at.
void Sampler::learn_codes(SampledProcess& process) {
    if (process.python) {
        SampleObjects objects(kernel_sample_);
        process.python->learn(process.memory, objects, kernel_sample_.codes());
    }
}

// kernel_sample_ was looked at. The kernel looks at the first of many threads only.
void Sampler::remember_state(SampledThread& thread) {
    const weft_sample& head = kernel_sample_.head();
    if (head.thread_state != 0) {
        return;
    }
    const auto state = std::ranges::find_if(thread.python.states, [&](const ThreadState& each) {
        return each.interpreter_id == 0 && each.pthread == head.thread_pointer;
    });
    if (state != thread.python.states.end()) {
        kernel_side_->remember_state(thread.tid, state->address);
    }
}

// The thread of kernel_sample_ was in the kernel, and there was no room for its stack, or it could not be had.
bool Sampler::hides_kernel() const {
    return kernel_sample_.head().in_kernel != 0 && kernel_sample_.kernel().count == 0;
}

// kernel_sample_, which is of this thread.
void Sampler::take_kernel_sample(SampledThread& thread) {
    const weft_sample& head = kernel_sample_.head();
    check_later(thread, head.time_ns + kLookPause);  // what has come since its sample is not known before that
    if (!is_due(thread, head.time_ns)) {
        learn_codes(thread.process);
        return;
    }
    if (thread.off_cpu.away()) {
        thread.off_cpu.is_not_there();  // where it was read; it did not stay there for long
        thread.timeline.stand_no_more();
    }
    const ThreadPosition position{head.thread_pointer, kernel_sample_.registers()};
    Look look = look_at(thread, position, stack_, &kernel_sample_);
    kernel_hidden_ = hides_kernel();
    look.stat = kernel_sample_.stat();
    if (head.account_ns < thread.account_ns) {
        look.stat.cpu_ns = thread.timeline.claimed_cpu_ns() + period_ns_;  // what is told is of before its exec, too
    }
    remember_state(thread);
    note_kernel(kernel_sample_.kernel());
    look.at_ns = head.time_ns;
    holds_.add(head.walk_ns);
    batch_.account.stacks_in_kernel += look.taken ? 1 : 0;
    account_look(thread, look);
}

}  // namespace weft
