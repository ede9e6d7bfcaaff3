// The kernel's side of BPF, as far as weft uses it: helpers by their numbers (include/uapi/linux/bpf.h), and the fields of the
// kernel's structs, whose offsets the kernel fills in as it loads the program (CO-RE). Compiled for the host, as tests do, the
// helpers are functions of whoever includes this.
#pragma once

#include "abi.h"

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline)) inline
#define NOT_INLINE static __attribute__((noinline))
// The verifier follows such a function once, whatever its arguments are, instead of at each call. So it has to ask whether pointers
// are null; they cannot lead to others (Linux 5.12). Weak, or else the compiler believes what it sees of calls and results.
#define GLOBAL __attribute__((noinline, weak))

// The compiler must not know how the value came about: it would turn arithmetic into branches, and each branch doubles the
// paths that the verifier has to follow.
#define HIDE(value) asm volatile("" : "+r"(value))

// The loader makes the maps. What it finds here are their names and the types of their values, which clang tells whole in this
// section only.
#define MAP(name, type) \
    struct {            \
        type* value;    \
    } name SECTION(".maps")

#ifdef __bpf__
#define RELOCATED __attribute__((preserve_access_index))
// Whether native stacks are wanted. The loader knows, and writes it into this instruction, so that the verifier does not follow
// what is not wanted.
INLINE int wants_native(void) {
    uint64_t told;
    asm("%0 = native_wanted ll" : "=r"(told));
    return told != 0;
}
static void* (*const map_lookup)(void* map, const void* key) = (void*)1;
static long (*const map_update)(void* map, const void* key, const void* value, uint64_t flags) = (void*)2;
static uint64_t (*const ktime_ns)(void) = (void*)5;
static long (*const map_delete)(void* map, const void* key) = (void*)3;
static uint32_t (*const random_number)(void) = (void*)7;
static uint32_t (*const cpu_number)(void) = (void*)8;
static uint64_t (*const current_pid_tgid)(void) = (void*)14;
static long (*const current_name)(void* to, uint32_t size) = (void*)16;
static long (*const kernel_stack)(void* context, void* to, uint32_t size, uint64_t flags) = (void*)67;
static long (*const read_user)(void* to, uint32_t size, uint64_t address) = (void*)112;
static long (*const read_kernel)(void* to, uint32_t size, const void* address) = (void*)113;
static long (*const ring_output)(void* map, void* data, uint64_t size, uint64_t flags) = (void*)130;
static uint64_t (*const ring_query)(void* map, uint64_t what) = (void*)134;
static struct task_struct* (*const current_task)(void) = (void*)158;
static struct pt_regs* (*const task_registers)(struct task_struct* task) = (void*)175;
static uint64_t (*const probe_cookie)(void* context) = (void*)174;
static long (*const loop)(uint32_t most, void* step, void* context, uint64_t flags) = (void*)181;
#else
#define RELOCATED
static int wants_native(void);
static void* map_lookup(void* map, const void* key);
static long map_update(void* map, const void* key, const void* value, uint64_t flags);
static uint64_t ktime_ns(void);
static uint32_t cpu_number(void);
static uint64_t current_pid_tgid(void);
static long current_name(void* to, uint32_t size);
static long map_delete(void* map, const void* key);
static uint32_t random_number(void);
static long read_kernel(void* to, uint32_t size, const void* address);
static long kernel_stack(void* context, void* to, uint32_t size, uint64_t flags);
static long read_user(void* to, uint32_t size, uint64_t address);
static long ring_output(void* map, void* data, uint64_t size, uint64_t flags);
static uint64_t ring_query(void* map, uint64_t what);
static struct task_struct* current_task(void);
static struct pt_regs* task_registers(struct task_struct* task);
static uint64_t probe_cookie(void* context);
static long loop(uint32_t most, void* step, void* context, uint64_t flags);
#endif

#define RING_NO_WAKEUP 1
#define RING_FORCE_WAKEUP 2
#define RING_AVAILABLE_DATA 0
#define MAP_NO_EXIST 1

#define PF_KTHREAD 0x00200000  // include/linux/sched.h

struct thread_struct {
    unsigned long fsbase;
} RELOCATED;
struct sched_entity {
    uint64_t sum_exec_runtime;
} RELOCATED;
struct sched_info {
    unsigned long pcount;
    unsigned long long run_delay;
} RELOCATED;
struct ns_common {
    unsigned int inum;
} RELOCATED;
struct pid_namespace {
    struct ns_common ns;
} RELOCATED;
struct upid {
    int nr;
    struct pid_namespace* ns;
} RELOCATED;
struct pid {
    unsigned int level;
    struct upid numbers[1];  // one for each namespace that it is in, outermost first
} RELOCATED;
struct task_struct {
    unsigned int flags;
    struct task_struct* group_leader;
    struct task_struct* real_parent;  // one of its threads
    struct pid* thread_pid;
    struct sched_entity se;
    struct sched_info sched_info;
    struct thread_struct thread;
    int pid;  // of the thread
    uint64_t start_time;
} RELOCATED;

struct pt_regs {
    unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

// The context of a program for perf events (include/uapi/linux/bpf_perf_event.h).
struct bpf_perf_event_data {
    struct pt_regs regs;
    uint64_t sample_period;
    uint64_t addr;
};
