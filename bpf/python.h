// The walk along the Python frames of the thread. They are told as pieces of memory: the thread state, the frames, the cframes.
#pragma once

#include "sample.h"

enum { MOST_PYTHON = 2048, MOST_THREADS = 4096, MOST_INTERPRETERS = 16 };

INLINE uint64_t word_at(uint64_t address) {
    uint64_t word = 0;
    read_user(&word, sizeof word, address);
    return word;
}

struct search {
    uint64_t state;
    uint64_t pthread;
    uint64_t found;
    uint32_t thread_next;
    uint32_t thread_pthread;
};

static long thread_step(uint32_t index, struct search* search) {
    if (!search->state) {
        return 1;
    }
    if (word_at(search->state + search->thread_pthread) == search->pthread) {
        search->found = search->state;
        return 1;
    }
    search->state = word_at(search->state + search->thread_next);
    return 0;
}

// The thread state of the thread that runs: where it was found before, or by the interpreters' lists.
INLINE uint64_t find_state(const struct weft_python* python, uint64_t thread_pointer, uint32_t tid) {
    uint64_t* known = map_lookup(&states, &tid);
    if (known && word_at(*known + python->thread_pthread) == thread_pointer) {
        return *known;
    }
    struct search search = {0, thread_pointer, 0, python->thread_next, python->thread_pthread};
    uint64_t interpreter = word_at(python->interpreters_head);
    for (int i = 0; i < MOST_INTERPRETERS && interpreter && !search.found; ++i) {
        search.state = word_at(interpreter + python->interp_threads_head);
        loop(MOST_THREADS, thread_step, &search, 0);
        interpreter = word_at(interpreter + python->interp_next);
    }
    if (search.found) {
        map_update(&states, &tid, &search.found, 0);
    }
    return search.found;
}

// The offset in scratch->bytes of a frame's bytes; 0: they cannot be read.
NOT_INLINE uint32_t frame_bytes(struct scratch* scratch, uint64_t address, uint32_t size) {
    const uint64_t into = address - scratch->block;
    if (into < scratch->block_size && into + size <= scratch->block_size) {
        return scratch->block_at + (uint32_t)into;
    }
    // Up the stack of Python frames, to older ones, goes down in memory. What lies elsewhere (on the C stack, in a generator)
    // is read alone.
    if (!scratch->block_size || (address < scratch->block && scratch->block - address < WINDOW)) {
        const uint64_t begin = address + size - WINDOW;
        const uint32_t at = add_piece(scratch, begin, WINDOW);
        if (at) {
            scratch->block = begin;
            scratch->block_size = WINDOW;
            scratch->block_at = at;
            return at + WINDOW - size;
        }
    }
    return add_piece(scratch, address, size);
}

static long frame_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const struct weft_python* python = &walk->process->python;
    if (!scratch->frame) {
        scratch->end = WEFT_END_WHOLE;
        return 1;
    }
    const uint32_t at = frame_bytes(scratch, scratch->frame, python->frame_size);
    if (!at) {
        scratch->end = scratch->used > SCRATCH_BYTES - 2 * SCRATCH_SLACK ? WEFT_END_DEPTH : WEFT_END_UNREADABLE;
        return 1;
    }
    scratch->sample.python_frames++;
    scratch->frame = *(uint64_t*)&scratch->bytes[(at + python->frame_previous) & (SCRATCH_BYTES - 1)];
    return 0;
}

// 3.11: the cframes are a chain of their own, up to the one in the thread state.
static long cframe_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const struct weft_python* python = &walk->process->python;
    const uint64_t cframe = scratch->cframe;
    if (cframe - scratch->state < python->thread_size) {
        return 1;
    }
    const uint32_t at = add_piece(scratch, cframe, python->cframe_size);
    if (!at) {
        return 1;
    }
    scratch->cframe = *(uint64_t*)&scratch->bytes[(at + python->cframe_previous) & (SCRATCH_BYTES - 1)];
    return 0;
}

// There are no Python frames.
INLINE void no_python(struct walk* walk) {
    struct weft_sample* sample = &walk->scratch->sample;
    sample->thread_state = 0;
    sample->python_frames = 0;
    sample->python_end = WEFT_END_NO_STATE;
}

INLINE void walk_python(struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    struct weft_sample* sample = &scratch->sample;
    const struct weft_python* python = &walk->process->python;
    no_python(walk);
    if (!python->interpreters_head) {
        return;
    }
    const uint64_t state = find_state(python, sample->thread_pointer, sample->tid);
    if (!state) {
        return;
    }
    const uint32_t at = add_piece(scratch, state, python->thread_size);
    if (!at) {
        sample->python_end = WEFT_END_UNREADABLE;
        return;
    }
    sample->thread_state = state;
    scratch->state = state;
    scratch->block_size = 0;
    scratch->block = 0;
    scratch->end = WEFT_END_DEPTH;
    uint64_t frame = *(uint64_t*)&scratch->bytes[(at + python->thread_frame) & (SCRATCH_BYTES - 1)];
    if (python->cframe_frame != WEFT_ABSENT && frame) {
        const uint32_t cframe = add_piece(scratch, frame, python->cframe_size);
        frame = cframe ? *(uint64_t*)&scratch->bytes[(cframe + python->cframe_frame) & (SCRATCH_BYTES - 1)] : 0;
    }
    scratch->frame = frame;
    loop(MOST_PYTHON, frame_step, walk, 0);
    sample->python_end = scratch->end;
    if (python->cframe_previous != WEFT_ABSENT) {
        scratch->cframe = *(uint64_t*)&scratch->bytes[(at + python->thread_cframe) & (SCRATCH_BYTES - 1)];
        loop(MOST_PYTHON, cframe_step, walk, 0);
    }
}
