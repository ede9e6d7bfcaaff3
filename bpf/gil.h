// Who holds the GIL, for a thread that may be about to wait for it: told as memory, like all of Python.
#pragma once

#include "python.h"

enum { SYSTEM_CALL_FUTEX = 202 };

INLINE void tell_gil(struct scratch* scratch, const struct weft_python* python) {
    const struct weft_sample* sample = &scratch->sample;
    if (sample->system_call != SYSTEM_CALL_FUTEX || !sample->thread_state) {
        return;
    }
    uint64_t address = python->current_thread;
    uint32_t size = sizeof address;
    if (!address) {
        const uint64_t interpreter = word_at(sample->thread_state + python->thread_interp);
        address = word_at(interpreter + python->interp_gil);
        size = python->gil_size;
    }
    add_piece(scratch, address, size);
}
