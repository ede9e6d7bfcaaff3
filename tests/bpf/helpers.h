// Helpers of the kernel that are the same whatever is tried. To be included behind weft.bpf.c.
#pragma once

#include <string.h>

enum { MOST_STEPS = 1 << 23 };

static long loop(uint32_t most, void* step, void* context, uint64_t flags) {
    long (*const call)(uint32_t, void*) = step;
    uint32_t index = 0;
    while (index < most && index < MOST_STEPS && !call(index++, context)) {
    }
    return index;
}

static long read_kernel(void* to, uint32_t size, const void* address) {
    memcpy(to, address, size);
    return 0;
}

static long current_name(void* to, uint32_t size) {
    memset(to, 0, size);
    return 0;
}

#ifndef OWN_WANTS_NATIVE
static int wants_native(void) { return 0; }
#endif

#ifndef OWN_RANDOM_NUMBERS
static uint32_t random_number(void) { return 0; }
#endif
static uint32_t cpu_number(void) { return 0; }
static uint64_t ring_query(void* map, uint64_t what) { return 0; }
static uint64_t probe_cookie(void* context) { return 0; }
