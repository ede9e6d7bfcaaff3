// bpf/kernel_stack.h on the host: a thread that leaves its CPU, whose stack in the kernel, and what the kernel's unwinder finds there,
// are as the caller says.
#include "kernel_stack.h"

#include "helpers.h"

static struct scratch scratch;
static const uint64_t* unwound;  // innermost first
static uint32_t unwound_bytes;
static uint32_t times_unwound;

static void* map_lookup(void* map, const void* key) { return 0; }
static long read_user(void* to, uint32_t size, uint64_t address) { return -14; }
static long ring_output(void* map, void* data, uint64_t size, uint64_t flags) { return 0; }

static long kernel_stack(void* context, void* to, uint32_t size, uint64_t flags) {
    times_unwound++;
    memcpy(to, unwound, unwound_bytes);
    return unwound_bytes;
}

// Where the thread is said to be: as many addresses as are returned, innermost first.
uint32_t leave_from(const uint64_t* stack, uint32_t words, const uint64_t* addresses, uint32_t frames,
                    int64_t system_call, uint64_t* told) {
    unwound = addresses;
    unwound_bytes = frames * sizeof *addresses;
    scratch.used = 0;
    scratch.sample.system_call = system_call;
    scratch.kernel_begin = (uint64_t)stack;
    scratch.kernel_end = (uint64_t)(stack + words);
    add_kernel_stack(&scratch, 0, 1);
    const struct weft_piece* piece = (const struct weft_piece*)scratch.bytes;
    memcpy(told, piece + 1, piece->size);
    return piece->size / sizeof *told;
}

uint32_t get_times_unwound(void) { return times_unwound; }
