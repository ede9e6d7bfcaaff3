// The walk along the Python frames of the thread. They are told as pieces of memory: the thread states, the frames, the cframes.
#pragma once

#include "code.h"

enum {
    MOST_INTERPRETERS = 256,
    MOST_THREADS = 512,  // thread states that are looked at for one sample; of the others user mode tells
    MOST_INSIDE = 64,    // and of one subinterpreter
};

INLINE uint64_t word_at(uint64_t address) {
    uint64_t word = 0;
    read_user(&word, sizeof word, address);
    return word;
}

INLINE uint64_t told_word(struct scratch* scratch, uint32_t at) {
    return *word_in(scratch->bytes, at & (SCRATCH_BYTES - 1));
}

// Notes a thread state that is to be told.
INLINE void add_state(struct scratch* scratch, uint64_t state) {
    const uint32_t count = scratch->states;
    for (uint32_t i = 0; i < MOST_STATES; ++i) {
        if (i < count && scratch->found[i] == state) {
            return;
        }
    }
    if (count < MOST_STATES) {
        scratch->found[count] = state;
        scratch->states = count + 1;
    }
}

INLINE int is_on_stack(const struct weft_sample* sample, uint64_t address) {
    // struct pthread lies above the stack of every thread but the first, whose stack is above all else.
    const uint64_t begin = sample->registers[RSP];
    return address >= begin && (sample->thread_pointer < begin || address < sample->thread_pointer);
}

INLINE int is_own_state(const struct walk* walk, uint64_t state) {
    const struct weft_sample* sample = &walk->scratch->sample;
    return state && word_at(state + walk->process->python.thread_pthread) == sample->thread_pointer;
}

// Tells a thread state, and notes it, if it is this thread's. 0: it is not.
INLINE int tell_own_state(struct walk* walk, uint64_t state) {
    struct scratch* scratch = walk->scratch;
    const struct weft_python* python = &walk->process->python;
    const uint32_t before = scratch->used;
    const uint32_t at = state ? add_piece(scratch, state, python->thread_size) : 0;
    if (!at || told_word(scratch, at + python->thread_pthread) != scratch->sample.thread_pointer) {
        scratch->used = before;
        return 0;
    }
    scratch->told_state = state;
    scratch->told_at = at;
    add_state(scratch, state);
    return 1;
}

// Up to 3.12 a subinterpreter's thread state names the thread that made it, and another may run it: its cframe tells whose stack
// it is on (3.10 on).
INLINE int is_entered_here(const struct walk* walk, uint64_t state) {
    const uint32_t cframe = walk->process->python.thread_cframe;
    return cframe != WEFT_ABSENT && is_on_stack(&walk->scratch->sample, word_at(state + cframe));
}

// Up to 3.11 a thread state names the thread that has made it (thread_id) until its own begins: it has no frames then.
INLINE int has_frames(const struct walk* walk, uint64_t state) {
    const struct weft_python* python = &walk->process->python;
    const uint64_t frame = word_at(state + python->thread_frame);
    return python->cframe_frame == WEFT_ABSENT || !frame ? frame != 0 : word_at(frame + python->cframe_frame) != 0;
}

static long thread_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const uint64_t state = scratch->state;
    if (!state || state == scratch->until || ++scratch->looks > MOST_THREADS) {
        return 1;
    }
    if (scratch->is_main && is_own_state(walk, state)) {
        if (has_frames(walk, state)) {
            return 1;
        }
        if (!scratch->idle) {
            scratch->idle = state;
            scratch->until = 0;
        }
    }
    if (!scratch->is_main && (is_own_state(walk, state) || is_entered_here(walk, state))) {
        add_state(scratch, state);
    }
    scratch->state = word_at(state + walk->process->python.thread_next);
    return 0;
}

// The main interpreter's thread state of this thread: that which is remembered, unless it has a newer one. New ones come to the
// head of the list, and one that has ended still looks like its thread's, where it was. One without frames is not remembered, and
// only told if the list has none with frames.
INLINE void find_main_state(struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const uint32_t tid = scratch->sample.tid;
    const struct weft_state* known = map_lookup(&states, &tid);
    struct weft_state state = {known ? known->state : 0, scratch->state};
    scratch->idle = 0;
    if (!known || known->first != state.first) {
        scratch->until = known ? known->first : 0;
        loop(MOST_THREADS, thread_step, walk, 0);
        if (is_own_state(walk, scratch->state)) {
            state.state = scratch->state;
        } else if (scratch->idle) {
            state.state = scratch->idle;
        }
    }
    if (!tell_own_state(walk, state.state)) {
        return;
    }
    if ((!known || known->first != state.first) && state.state != scratch->idle) {
        map_update(&states, &tid, &state, 0);
    }
    scratch->sample.thread_state = state.state;
}

static long interpreter_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const struct weft_python* python = &walk->process->python;
    const uint64_t interpreter = scratch->interpreter;
    if (!interpreter) {
        return 1;
    }
    scratch->interpreter = word_at(interpreter + python->interp_next);
    scratch->is_main = !scratch->interpreter;  // new ones come to the head of the list
    scratch->state = word_at(interpreter + python->interp_threads_head);
    if (scratch->is_main) {
        find_main_state(walk);
    } else {
        scratch->until = 0;
        loop(MOST_INSIDE, thread_step, walk, 0);
    }
    return 0;
}

// The thread states of the thread that runs, into scratch->found: what it has in its own storage, while it holds the GIL and where
// that is known; else what was found before; else by the interpreters' lists. A thread that has entered a subinterpreter has one
// in each.
INLINE void find_states(struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const struct weft_python* python = &walk->process->python;
    struct weft_sample* sample = &scratch->sample;
    scratch->states = 0;
    scratch->told_state = 0;
    uint64_t interpreters[2] = {};  // the newest one, and the main one
    read_user(interpreters, python->main_follows ? sizeof interpreters : sizeof *interpreters,
              python->interpreters_head);
    scratch->interpreter = interpreters[0];
    const int alone = scratch->interpreter &&
                      (interpreters[0] == interpreters[1] || !word_at(scratch->interpreter + python->interp_next));
    sample->is_alone = alone;
    const uint64_t current = python->current_state ? word_at(sample->thread_pointer + python->current_state) : 0;
    if (alone && tell_own_state(walk, current)) {
        sample->thread_state = current;
        // When it lets go of the GIL, its storage tells nothing.
        const uint32_t tid = sample->tid;
        const struct weft_state* known = map_lookup(&states, &tid);
        if (!known || known->state != current) {
            const struct weft_state state = {current, 0};
            map_update(&states, &tid, &state, 0);
        }
        return;
    }
    if (!alone && current) {
        add_state(scratch, current);  // it may name the thread that made it
    }
    scratch->looks = 0;
    loop(MOST_INTERPRETERS, interpreter_step, walk, 0);
}

INLINE int is_close_below(uint64_t address, uint64_t other) { return address < other && other - address < WINDOW; }

// The offset in scratch->bytes of a frame's bytes; 0: they cannot be read.
NOT_INLINE uint32_t frame_bytes(struct scratch* scratch, uint64_t address, uint32_t size) {
    const uint64_t into = address - scratch->block;
    if (into < scratch->block_size && into + size <= scratch->block_size) {
        return scratch->block_at + (uint32_t)into;
    }
    // Up the stack of Python frames, to older ones, goes down in memory. What lies elsewhere (on the C stack, in a generator)
    // is read alone, unless the one before it lies close above: they are in the next chunk of that stack. No other page is touched than
    // the frame's own: that before the first one is not there, and to fail costs more than to read.
    if (!scratch->block_size || is_close_below(address, scratch->block) || is_close_below(address, scratch->alone)) {
        const uint32_t into_page = address & 4095;
        const uint32_t older = into_page < WINDOW - size ? into_page : WINDOW - size;
        const uint32_t at = add_piece(scratch, address - older, older + size);
        if (at) {
            scratch->block = address - older;
            scratch->block_size = older + size;
            scratch->block_at = at;
            return at + older;
        }
    }
    scratch->alone = address;
    return add_stack_piece(scratch, address, size);
}

// Whether the frame is the one with which an activation begins (3.12 on). Where others have their code object it has None: to read
// what lies behind that, and where it seems to point to, costs a fault each time.
INLINE int is_shim(const struct scratch* scratch, const struct weft_python* python, uint32_t at) {
    return python->frame_owner != WEFT_ABSENT &&
           scratch->bytes[(at + python->frame_owner) & (SCRATCH_BYTES - 1)] >= python->frame_owner_shim;
}

static long frame_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const struct weft_python* python = &walk->process->python;
    if (!scratch->frame) {
        scratch->end = WEFT_END_WHOLE;
        return 1;
    }
    if (scratch->sample.python_frames == WEFT_MOST_PYTHON) {
        return 1;  // of all thread states
    }
    const uint32_t at = frame_bytes(scratch, scratch->frame, python->frame_size);
    if (!at) {
        scratch->end = scratch->used > ROOM ? WEFT_END_DEPTH : WEFT_END_UNREADABLE;
        return 1;
    }
    scratch->sample.python_frames++;
    if (!is_shim(scratch, python, at)) {
        tell_code(walk, told_word(scratch, at + python->frame_code) & ~(uint64_t)python->frame_code_tags);
    }
    const uint64_t frame = scratch->frame;
    scratch->frame = told_word(scratch, at + python->frame_previous);
    // An activation that has just begun may show what the one before it has left: objects, which are followed to the type of all types,
    // and that is its own. A circle comes by the last milestone, of which each is twice as far as the one before (Brent); our own walk
    // over what was told says what it was.
    if (scratch->frame && scratch->frame == scratch->milestone) {
        scratch->end = WEFT_END_WHOLE;
        return 1;
    }
    const uint32_t frames = scratch->sample.python_frames;
    if (!(frames & (frames - 1))) {
        scratch->milestone = frame;
    }
    return 0;
}

// 3.11, 3.12: the cframes are a chain of their own, up to the one in the thread state.
static long cframe_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const struct weft_python* python = &walk->process->python;
    const uint64_t cframe = scratch->cframe;
    if (!cframe || cframe - scratch->state < python->thread_size) {
        return 1;
    }
    const uint32_t at = add_stack_piece(scratch, cframe + python->cframe_frame, python->cframe_size);
    if (!at) {
        add_piece(scratch, cframe + python->cframe_frame, sizeof cframe);  // the last one that can be read
        return 1;
    }
    const uint32_t previous = at + python->cframe_previous - python->cframe_frame;
    scratch->cframe = told_word(scratch, previous);
    return 0;
}

// Tells one thread state, and the frames that it runs.
static long state_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    struct weft_sample* sample = &scratch->sample;
    const struct weft_python* python = &walk->process->python;
    if (index >= scratch->states) {
        return 1;
    }
    const uint64_t state = scratch->found[index & (MOST_STATES - 1)];
    const uint32_t at =
        state == scratch->told_state ? scratch->told_at : add_piece(scratch, state, python->thread_size);
    if (!at) {
        sample->python_end = WEFT_END_UNREADABLE;
        return 0;
    }
    scratch->state = state;
    scratch->block_size = 0;
    scratch->block = 0;
    scratch->alone = 0;
    scratch->end = WEFT_END_DEPTH;
    uint64_t frame = told_word(scratch, at + python->thread_frame);
    if (python->cframe_frame != WEFT_ABSENT && frame) {
        const uint32_t cframe = add_stack_piece(scratch, frame + python->cframe_frame, python->cframe_size);
        if (!cframe) {
            sample->python_end = WEFT_END_UNREADABLE;
            return 0;
        }
        frame = told_word(scratch, cframe);
    }
    scratch->frame = frame;
    scratch->milestone = 0;
    loop(WEFT_MOST_PYTHON, frame_step, walk, 0);
    if (scratch->end != WEFT_END_WHOLE || sample->python_end == WEFT_END_NO_STATE) {
        sample->python_end = scratch->end;
    }
    if (python->cframe_previous != WEFT_ABSENT) {
        scratch->cframe = told_word(scratch, at + python->thread_cframe);
        loop(python->cframes, cframe_step, walk, 0);
    }
    return 0;
}

// There are no Python frames.
INLINE void no_python(struct walk* walk) {
    struct weft_sample* sample = &walk->scratch->sample;
    sample->thread_state = 0;
    sample->is_alone = 0;
    sample->python_frames = 0;
    sample->python_end = WEFT_END_NO_STATE;
}

INLINE void walk_python(struct walk* walk) {
    no_python(walk);
    if (walk->process->python.interpreters_head) {
        find_states(walk);
        loop(MOST_STATES, state_step, walk, 0);
    }
}
