// The kernel's part of collector bpf: at each tick of the CPU's clock, and (switches.h) where a thread leaves its CPU, the native
// and the Python stack of the thread. Nothing moves meanwhile: this runs on the thread itself.
//
// Python's frames are not understood here, only followed: their bytes are told as they are, and the walker of native/python
// reads them as it reads any memory.
#include "bpf.h"

#include "allocations.h"
#include "gil.h"
#include "ids.h"
#include "kernel_stack.h"
#include "native.h"
#include "python.h"
#include "sample.h"
#include "switches.h"

// The registers that the thread has in user mode: where it was interrupted, or entered the kernel.
INLINE void take_registers(struct weft_sample* sample, const struct pt_regs* from) {
    uint64_t* to = sample->registers;
    to[0] = from->ax, to[1] = from->dx, to[2] = from->cx, to[3] = from->bx;
    to[4] = from->si, to[5] = from->di, to[6] = from->bp, to[7] = from->sp;
    to[8] = from->r8, to[9] = from->r9, to[10] = from->r10, to[11] = from->r11;
    to[12] = from->r12, to[13] = from->r13, to[14] = from->r14, to[15] = from->r15;
    to[16] = from->ip;
}

static long copy_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const uint64_t address = scratch->sample.registers[RSP] + (uint64_t)index * WINDOW;
    if (add_piece(scratch, address, WINDOW)) {
        return 0;
    }
    // The stack ends within it, at the end of a page.
    const uint32_t rest = (4096 - (address & 4095)) & (WINDOW - 1);
    add_piece(scratch, address, rest);
    return 1;
}

INLINE void copy_stack(struct walk* walk) { loop(WEFT_STACK / WINDOW, copy_step, walk, 0); }

// What is known of the current process; null: it is not to be sampled.
INLINE struct weft_process* find_process(uint32_t pid) {
    struct weft_process* process = map_lookup(&processes, &pid);
    if (!process) {
        const uint32_t zero = 0;
        process = map_lookup(&others, &zero);
        if (process && process->sampled) {
            return map_lookup(&ignored, &pid) ? 0 : process;
        }
        if (!process || !process->follows) {
            return 0;
        }
        // A child of which user mode does not know yet: it begins as a copy of its parent.
        const uint32_t parent = pid_of_parent();
        process = map_lookup(&processes, &parent);
        return process && process->follows ? process : 0;
    }
    return process->sampled ? process : 0;
}

INLINE int begin_walk_in(struct walk* walk, struct weft_process* process, uint32_t place) {
    walk->process = process;
    walk->scratch = map_lookup(&scratches, &place);
    walk->cache = map_lookup(&caches, &place);
    const uint32_t zero = 0;
    walk->told = map_lookup(&codes, &zero);
    return walk->scratch && walk->cache && walk->told;
}

// Its place is this walk's alone from now on.
INLINE void begin_generation(struct walk* walk) { walk->scratch->generation = walk->process->generation; }

// What a sample is built in, on this CPU. Ticks are interrupts, and switches happen where these are off: neither comes in the midst
// of the other.
INLINE int begin_walk(struct walk* walk, struct weft_process* process) {
    if (!begin_walk_in(walk, process, cpu_number())) {
        return 0;
    }
    begin_generation(walk);
    return 1;
}

INLINE void begin_sample(struct weft_sample* sample, struct task_struct* task, uint64_t now_ns, uint64_t ids) {
    sample->time_ns = now_ns;
    sample->pid = ids >> 32;
    sample->tid = (uint32_t)ids;
    sample->cpu = cpu_number();
    current_name(sample->name, sizeof sample->name);
    sample->is_kernel_task = (task->flags & PF_KTHREAD) != 0;
    sample->thread_pointer = task->thread.fsbase;
    sample->cpu_ns = task->se.sum_exec_runtime;
    sample->delay_ns = task->sched_info.run_delay;
    sample->switches = task->sched_info.pcount;
    sample->account_ns = 0;
}

// The walks, by the registers that are known. leaves: the thread leaves its CPU. Nonzero: the ring has no room for what they have found.
INLINE long tell_stacks(struct walk* walk, void* context, int leaves) {
    struct scratch* scratch = walk->scratch;
    struct weft_sample* sample = &scratch->sample;
    forget_windows(scratch);
    if (sample->is_kernel_task) {
        no_native(walk);
        no_python(walk);
    } else {
        walk_native(walk);
        walk_python(walk);
    }
    // Told anew meanwhile; its place in the map may be another process's by now.
    if (walk->process->generation != scratch->generation) {
        scratch->used = 0;
        sample->native_frames = 0;
        sample->native_end = sample->python_end = WEFT_END_UNREADABLE;
    }
    if (leaves) {
        tell_gil(scratch, &walk->process->python);
    }
    if (wants_native() && sample->in_kernel) {  // else nobody is shown it, and the kernel's unwinder takes long
        add_kernel_stack(scratch, context, leaves && !sample->is_kernel_task);
    }
    if (sample->native_end > WEFT_END_DEPTH) {
        copy_stack(walk);
    }
    sample->bytes = scratch->used;
    sample->walk_ns = ktime_ns() - sample->time_ns;
    const uint32_t used = scratch->used;
    if (used > SCRATCH_BYTES || tell(sample, sizeof *sample + used)) {
        count_lost();
        return 1;
    }
    return 0;
}

SECTION("perf_event") int on_tick(struct bpf_perf_event_data* context) {
    const uint64_t now_ns = ktime_ns();
    const uint64_t ids = current_ids();
    const uint32_t pid = ids >> 32;
    struct weft_process* process = pid ? find_process(pid) : 0;  // 0: the CPU is idle
    struct walk walk;
    if (!process || !begin_walk(&walk, process)) {
        return 0;
    }
    struct weft_sample* sample = &walk.scratch->sample;
    struct task_struct* task = current_task();
    begin_sample(sample, task, now_ns, ids);
    sample->record = WEFT_TICK;
    sample->every = 1;
    const uint32_t tid = (uint32_t)ids;
    struct weft_thread* thread = process->switches ? thread_at(process, tid, now_ns) : 0;
    if (thread) {
        // Not where it has not been seen to leave: it may have run all the time, and its account lags behind at a tick.
        if (thread->place == WEFT_OFF_CPU) {
            notice_return(thread, tid, now_ns);
        }
        sample->cpu_ns = thread->times.ran_ns + not_before(thread, now_ns) - thread->since_ns;
        sample->account_ns = thread->times.began_ns;
    }
    sample->in_kernel = (context->regs.cs & 3) == 0;
    take_registers(sample, &context->regs);
    // The verifier knows the context's registers and the task's as different things, which no one load may serve.
    asm volatile("" ::: "memory");
    if (sample->in_kernel) {
        take_registers(sample, task_registers(task));
    }
    tell_stacks(&walk, context, 0);
    return 0;
}

// Its stack, as it leaves.
INLINE void tell_leaving(struct weft_process* process, struct weft_thread* thread, uint64_t now_ns, uint64_t ids,
                         void* context) {
    struct walk walk;
    if (!begin_walk(&walk, process)) {
        return;
    }
    struct weft_sample* sample = &walk.scratch->sample;
    struct task_struct* task = current_task();
    begin_sample(sample, task, now_ns, ids);
    sample->record = WEFT_OUT;
    sample->every = thread->every;
    sample->cpu_ns = thread->times.ran_ns;
    sample->account_ns = thread->times.began_ns;
    sample->in_kernel = 1;
    sample->why = thread->why;
    const struct pt_regs* registers = task_registers(task);
    take_registers(sample, registers);
    sample->system_call = registers->orig_ax;
    walk.scratch->kernel_begin = (uint64_t)context;
    walk.scratch->kernel_end = (uint64_t)registers;
    if (tell_stacks(&walk, context, 1)) {
        thread->every = 0;
        thread->missed = 1;
    }
}

// sched_switch: preempt, the thread that leaves (it still is the current one), the one that comes, the first one's state. That
// is told since Linux 5.18; by now, the thread itself may have another one. Who is preempted could run on, whatever his state is.
SECTION("raw_tp/sched_switch") int on_switch(struct arguments* context) {
    const uint64_t preempted = context->values[0];
    const uint64_t coming = context->values[2];
    const uint64_t state = context->values[3];
    const uint64_t now_ns = ktime_ns();
    const uint64_t ids = current_ids();
    const uint32_t pid = ids >> 32;
    struct weft_process* process = pid ? find_process(pid) : 0;
    if (process) {
        const uint32_t why = preempted & 1 ? 0 : (uint32_t)state;
        struct weft_thread* thread = leave(process, now_ns, (uint32_t)ids, why);
        if (thread && thread->every) {
            tell_leaving(process, thread, now_ns, ids, context);
        }
    }
    const uint32_t tid = tid_of(coming);
    struct weft_thread* thread = tid ? map_lookup(&threads, &tid) : 0;
    if (thread) {
        come_back(thread, tid, coming, now_ns);
    }
    return 0;
}

// sched_waking: the thread.
SECTION("raw_tp/sched_waking") int on_waking(struct arguments* context) {
    const uint32_t tid = tid_of(context->values[0]);
    struct weft_thread* thread = map_lookup(&threads, &tid);
    if (thread) {
        thread->woken_ns = ktime_ns();
    }
    return 0;
}

// The thread is about to ask for memory, and this allocation is one of the sampled.
INLINE void tell_allocation(struct walk* walk, struct pt_regs* context, uint64_t asked_for) {
    struct weft_sample* sample = &walk->scratch->sample;
    begin_sample(sample, current_task(), ktime_ns(), current_ids());
    sample->record = WEFT_ALLOCATION;
    sample->every = 1;
    sample->in_kernel = 0;
    sample->asked_for = asked_for;
    take_registers(sample, context);
    tell_stacks(walk, context, 0);
}

// At the first instruction of a function of the allocator's. Unlike ticks, a probe's program can be preempted, by a thread that
// comes to a probe, too: each CPU has two places for walks, which are taken.
SECTION("kprobe/allocation") int on_allocation(struct pt_regs* context) {
    const uint64_t asked_for = bytes_asked_for(context);
    if (!asked_for || !is_sampled(asked_for)) {
        return 0;
    }
    struct weft_process* process = find_process(current_ids() >> 32);
    struct walk walk;
    for (uint32_t second = 0; process && second < WEFT_PLACES; second++) {
        if (begin_walk_in(&walk, process, cpu_number() * WEFT_PLACES + second) && take(walk.scratch)) {
            begin_generation(&walk);
            tell_allocation(&walk, context, asked_for);
            let_go(walk.scratch);
            return 0;
        }
    }
    count_lost();
    return 0;
}

char gpl[] SECTION("license") = "GPL";
