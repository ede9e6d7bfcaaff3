// The helpers of the kernel that bpf/weft.bpf.c calls, and its maps, for one process with one thread.
#include "host.h"

#include "weft.bpf.c"

#define OWN_WANTS_NATIVE
#include "helpers.h"

enum { PROCESS = 1000, THREAD = 1001 };

static struct weft_host* host;
static const struct weft_sample* told;
static struct scratch scratch;
static struct rule_cache cache;
static struct told_codes told_before;
static struct task_struct task;
static struct pt_regs user;

static int wants_native(void) { return host->native; }

static void* map_lookup(void* map, const void* key) {
    const uint32_t number = *(const uint32_t*)key;
    if (map == &processes) {
        return number == PROCESS ? host->process : 0;
    }
    if (map == &tables) {
        return host->table(host->self, number);
    }
    if (map == &states) {
        return number == THREAD && host->state.state ? &host->state : 0;
    }
    if (map == &rows) {
        return number < (uint32_t)WEFT_HOST_ROWS / WEFT_CHUNK ? host->rows + number * WEFT_CHUNK : 0;
    }
    if ((uint32_t*)map >= host->rows && (uint32_t*)map < host->rows + WEFT_HOST_ROWS) {
        return map;  // a chunk, whose one value is there
    }
    // Arrays of one entry.
    return number              ? 0
           : map == &pages     ? (void*)host->pages
           : map == &rules     ? (void*)host->rules
           : map == &scratches ? (void*)&scratch
           : map == &caches    ? (void*)&cache
           : map == &codes     ? (void*)&told_before
                               : 0;
}

static long map_update(void* map, const void* key, const void* value, uint64_t flags) {
    if (map == &states && *(const uint32_t*)key == THREAD) {
        memcpy(&host->state, value, sizeof host->state);
    }
    return 0;
}

// bpf_probe_read_user: what cannot be read becomes zeros.
static long read_user(void* to, uint32_t size, uint64_t address) {
    if (host->read(host->self, address, to, size)) {
        memset(to, 0, size);
        return -14;
    }
    return 0;
}

static long kernel_stack(void* context, void* to, uint32_t size, uint64_t flags) {
    const uint64_t addresses[] = {0xffffffff81000010, 0xffffffff81000020};
    memcpy(to, addresses, sizeof addresses);
    return sizeof addresses;
}

static long ring_output(void* map, void* data, uint64_t size, uint64_t flags) {
    told = data;
    return 0;
}

static long map_delete(void* map, const void* key) { return 0; }
static uint64_t ktime_ns(void) {
    static uint64_t now_ns;
    return ++now_ns;
}

static uint64_t current_pid_tgid(void) { return (uint64_t)PROCESS << 32 | THREAD; }
static struct task_struct* current_task(void) { return &task; }
static struct pt_regs* task_registers(struct task_struct* of) { return &user; }

const struct weft_sample* weft_host_tick(struct weft_host* given, const struct weft_host_thread* thread) {
    const uint64_t* from = thread->registers;
    host = given;
    told = 0;
    task.thread.fsbase = thread->thread_pointer;
    user.ax = from[0], user.dx = from[1], user.cx = from[2], user.bx = from[3];
    user.si = from[4], user.di = from[5], user.bp = from[6], user.sp = from[7];
    user.r8 = from[8], user.r9 = from[9], user.r10 = from[10], user.r11 = from[11];
    user.r12 = from[12], user.r13 = from[13], user.r14 = from[14], user.r15 = from[15];
    user.ip = from[16];
    struct bpf_perf_event_data context = {0};
    if (!thread->in_kernel) {
        context.regs = user;
        context.regs.cs = 3;
        memset(&user, 0, sizeof user);
    }
    on_tick(&context);
    return told;
}

void weft_host_forget_rules(void) { memset(&cache, 0, sizeof cache); }
