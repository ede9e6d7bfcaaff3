// bpf/allocations.h on the host: a CPU on which memory is asked for.
#include "weft.bpf.c"

#define OWN_RANDOM_NUMBERS
#include "helpers.h"

static struct weft_allocations here;
static uint64_t seed;

static void* map_lookup(void* map, const void* key) { return map == &allocations ? &here : 0; }
static long map_update(void* map, const void* key, const void* value, uint64_t flags) { return 0; }
static long map_delete(void* map, const void* key) { return 0; }
static long read_user(void* to, uint32_t size, uint64_t address) {
    memset(to, 0, size);
    return -14;
}
static long kernel_stack(void* context, void* to, uint32_t size, uint64_t flags) { return 0; }
static long ring_output(void* map, void* data, uint64_t size, uint64_t flags) { return 0; }
static uint64_t ktime_ns(void) { return 0; }
static uint64_t current_pid_tgid(void) { return 0; }
static struct task_struct* current_task(void) { return 0; }
static struct pt_regs* task_registers(struct task_struct* of) { return 0; }

// splitmix64, by Sebastiano Vigna.
static uint32_t random_number(void) {
    uint64_t mixed = seed += 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return (mixed ^ mixed >> 31) >> 32;
}

void begin(uint64_t with_seed) {
    seed = with_seed;
    memset(&here, 0, sizeof here);
}

void draw(uint64_t* gaps, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        gaps[i] = drawn_gap();
    }
}

// How many of so many requests are sampled.
uint64_t ask(uint64_t size, uint64_t count) {
    uint64_t sampled = 0;
    for (uint64_t i = 0; i < count; i++) {
        sampled += is_sampled(size);
    }
    return sampled;
}

// The counter was used up by another one, who was preempted before it was set anew.
uint64_t ask_in_between(uint64_t size, uint64_t count) {
    uint64_t sampled = 0;
    for (uint64_t i = 0; i < count; i++) {
        here.until_next = -1;
        sampled += is_sampled(size);
    }
    return sampled;
}

uint64_t bytes_of(uint64_t members, uint64_t size) { return product(members, size); }

void get_sums(uint64_t* sums) {
    sums[0] = here.calls;
    sums[1] = here.bytes;
    sums[2] = here.refused;
}
