// The kernel's part of collector bpf: at each tick of the CPU's clock, the native and the Python stack of the thread that it
// fell on. Nothing moves meanwhile: this runs on the thread itself.
//
// Python's frames are not understood here, only followed: their bytes are told as they are, and the walker of native/python
// reads them as it reads any memory.
#include "bpf.h"

#include "native.h"
#include "python.h"
#include "sample.h"

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

INLINE void add_kernel_stack(struct scratch* scratch, void* context) {
    const uint32_t at = scratch->used;
    if (at > SCRATCH_BYTES - 2 * SCRATCH_SLACK) {
        return;
    }
    const uint32_t data = at + sizeof(struct weft_piece);
    const long size = kernel_stack(context, &scratch->bytes[data & (SCRATCH_BYTES - 1)], SCRATCH_SLACK, 0);
    if (size <= 0) {
        return;
    }
    struct weft_piece* piece = (struct weft_piece*)&scratch->bytes[at & (SCRATCH_BYTES - 1)];
    piece->address = 0;
    piece->size = size;
    piece->kind = WEFT_KERNEL;
    scratch->used = data + ((uint32_t)size & ~7u);
}

// What is known of a process; null: it is not to be sampled.
INLINE struct weft_process* find_process(uint32_t pid) {
    struct weft_process* process = map_lookup(&processes, &pid);
    if (!process) {
        const uint32_t zero = 0;
        process = map_lookup(&others, &zero);
    }
    return process && process->sampled ? process : 0;
}

SECTION("perf_event") int on_tick(struct bpf_perf_event_data* context) {
    const uint64_t begin_ns = ktime_ns();
    const uint64_t ids = current_pid_tgid();
    const uint32_t pid = ids >> 32;
    struct weft_process* process = pid ? find_process(pid) : 0;  // 0: the CPU is idle
    if (!process) {
        return 0;
    }
    const uint32_t cpu = cpu_number();
    struct scratch* scratch = map_lookup(&scratches, &cpu);
    struct rule_cache* cache = map_lookup(&caches, &cpu);
    if (!scratch || !cache) {
        return 0;
    }
    struct weft_sample* sample = &scratch->sample;
    struct task_struct* task = current_task();
    sample->time_ns = begin_ns;
    sample->pid = pid;
    sample->tid = (uint32_t)ids;
    sample->cpu = cpu;
    current_name(sample->name, sizeof sample->name);
    sample->is_kernel_task = (task->flags & PF_KTHREAD) != 0;
    sample->thread_pointer = task->thread.fsbase;
    sample->cpu_ns = task->se.sum_exec_runtime;
    sample->delay_ns = task->sched_info.run_delay;
    sample->switches = task->sched_info.pcount;
    sample->in_kernel = (context->regs.cs & 3) == 0;
    take_registers(sample, &context->regs);
    // The verifier knows the context's registers and the task's as different things, which no one load may serve.
    asm volatile("" ::: "memory");
    if (sample->in_kernel) {
        take_registers(sample, task_registers(task));
    }
    struct walk walk = {process, scratch, cache};
    if (sample->is_kernel_task) {
        no_native(&walk);
        no_python(&walk);
    } else {
        walk_native(&walk);
        walk_python(&walk);
    }
    if (sample->in_kernel) {
        add_kernel_stack(scratch, context);
    }
    if (sample->native_end >= WEFT_END_NO_RULE) {
        copy_stack(&walk);
    }
    sample->bytes = scratch->used;
    sample->walk_ns = ktime_ns() - begin_ns;
    const uint32_t used = scratch->used;
    if (used > SCRATCH_BYTES || ring_output(&ring, sample, sizeof *sample + used, RING_NO_WAKEUP)) {
        count_lost();
    }
    return 0;
}

char gpl[] SECTION("license") = "GPL";
