// bpf/switches.h on the host: one thread, which leaves its CPU and comes back as the caller says.
#include "weft.bpf.c"

#include "helpers.h"

enum { PROCESS = 1000, THREAD = 1001 };

static uint64_t now;
static uint32_t running;
static struct task_struct task;
static struct weft_process process;
static struct weft_thread known;
static int is_known;
static struct weft_rate rate;
static struct scratch scratch;
static struct rule_cache cache;
static struct told_codes told_before;
static struct pt_regs user;
static int is_full;  // the ring
static uint64_t lost_count;

static void* map_lookup(void* map, const void* key) {
    const uint32_t number = *(const uint32_t*)key;
    if (map == &processes) {
        return number == PROCESS ? &process : 0;
    }
    if (map == &threads) {
        return number == THREAD && is_known ? &known : 0;
    }
    return map == &lost        ? (void*)&lost_count
           : number            ? 0
           : map == &rates     ? (void*)&rate
           : map == &scratches ? (void*)&scratch
           : map == &caches    ? (void*)&cache
           : map == &codes     ? (void*)&told_before
                               : 0;
}

static long map_update(void* map, const void* key, const void* value, uint64_t flags) {
    if (map == &threads && *(const uint32_t*)key == THREAD && !is_known) {
        memcpy(&known, value, sizeof known);
        is_known = 1;
    }
    return 0;
}

static long map_delete(void* map, const void* key) {
    is_known = map != &threads && is_known;
    return 0;
}

static long read_user(void* to, uint32_t size, uint64_t address) {
    memset(to, 0, size);
    return -14;
}

static long kernel_stack(void* context, void* to, uint32_t size, uint64_t flags) { return 0; }
static long ring_output(void* map, void* data, uint64_t size, uint64_t flags) { return is_full ? -11 : 0; }
static uint64_t ktime_ns(void) { return now; }
static uint64_t current_pid_tgid(void) { return running ? (uint64_t)PROCESS << 32 | running : 0; }
static struct task_struct* current_task(void) { return &task; }
static struct pt_regs* task_registers(struct task_struct* of) { return &user; }

// The thread has been found in user mode, which then has known this CPU time of it.
void find(uint64_t now_ns, uint64_t cpu_ns) {
    memset(&known, 0, sizeof known);
    memset(&task, 0, sizeof task);
    memset(&rate, 0, sizeof rate);
    process.sampled = process.switches = 1;
    task.pid = THREAD;
    known.times.began_ns = known.since_ns = now_ns;
    known.cpu_ns = cpu_ns;
    is_known = 1;
}

static void at(uint64_t now_ns, uint32_t tid, uint64_t cpu_ns) {
    now = now_ns;
    running = tid;
    task.se.sum_exec_runtime = cpu_ns;
}

void leaves(uint64_t now_ns, uint64_t cpu_ns, uint32_t state) {
    at(now_ns, THREAD, cpu_ns);
    struct task_struct idle = {0};
    struct arguments context = {{0, (uint64_t)&task, (uint64_t)&idle, state}};
    on_switch(&context);
}

void comes_back(uint64_t now_ns, uint64_t cpu_ns) {
    at(now_ns, 0, cpu_ns);
    struct task_struct idle = {0};
    struct arguments context = {{0, (uint64_t)&idle, (uint64_t)&task, 0}};
    on_switch(&context);
}

void is_woken(uint64_t now_ns) {
    at(now_ns, 0, task.se.sum_exec_runtime);
    struct arguments context = {{(uint64_t)&task}};
    on_waking(&context);
}

void ticks(uint64_t now_ns, uint64_t cpu_ns) {
    at(now_ns, THREAD, cpu_ns);
    struct bpf_perf_event_data context = {0};
    context.regs.cs = 3;
    on_tick(&context);
}

void fills(int full) { is_full = full; }

// For how long it was away in stays that are told as lost, in ns; and how often the ring was full.
uint64_t lost_ns(void) { return known.times.lost_ns; }
uint64_t times_full(void) { return lost_count; }

// In ns: it ran, was ready, was blocked.
void get_times(uint64_t* times) {
    times[0] = known.times.ran_ns;
    times[1] = known.times.ready_ns;
    times[2] = known.times.blocked_ns;
}

// Of the last sample, in ns.
uint64_t sampled_cpu_ns(void) { return scratch.sample.cpu_ns; }
