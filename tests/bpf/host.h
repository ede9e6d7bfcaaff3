// The kernel's part of collector bpf as a function of the host: what the kernel gives it is given here.
#pragma once

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_HOST_ROWS = 1 << 22 };  // that there are: a few chunks

struct weft_host {
    // Memory of the target; nonzero: it cannot be read.
    int (*read)(void* self, uint64_t address, void* to, uint32_t size);
    // The table of a number; null: there is none.
    struct weft_table* (*table)(void* self, uint32_t number);
    void* self;
    int native;  // native stacks are wanted
    // Values of maps, whole.
    struct weft_process* process;
    uint32_t* pages;
    uint32_t* rows;
    struct weft_rule* rules;
    struct weft_state state;  // that is remembered of the one thread
};

struct weft_host_thread {
    uint64_t registers[WEFT_REGISTERS];
    uint64_t thread_pointer;
    int in_kernel;
};

// A tick that falls on the thread: the sample that comes of it, which holds until the next call; null: there was none.
const struct weft_sample* weft_host_tick(struct weft_host* host, const struct weft_host_thread* thread);

// What its CPU remembers of rules is gone.
void weft_host_forget_rules(void);

#ifdef __cplusplus
}
#endif
