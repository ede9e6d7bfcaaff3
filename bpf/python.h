// The walk along the Python frames of the thread. They are told as pieces of memory: the thread states, the frames, the cframes.
#pragma once

#include "sample.h"

enum {
    MOST_PYTHON = 2048,
    MOST_INTERPRETERS = 256,
    MOST_THREADS = 512,  // thread states that are looked at for one sample; of the others user mode tells
    MOST_INSIDE = 64,    // and of one subinterpreter
};

INLINE uint64_t word_at(uint64_t address) {
    uint64_t word = 0;
    read_user(&word, sizeof word, address);
    return word;
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

// Up to 3.12 a subinterpreter's thread state names the thread that made it, and another may run it: its cframe tells whose stack
// it is on (3.10 on).
INLINE int is_entered_here(const struct walk* walk, uint64_t state) {
    const uint32_t cframe = walk->process->python.thread_cframe;
    return cframe != WEFT_ABSENT && is_on_stack(&walk->scratch->sample, word_at(state + cframe));
}

static long thread_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const uint64_t state = scratch->state;
    if (!state || state == scratch->until || ++scratch->looks > MOST_THREADS) {
        return 1;
    }
    if (scratch->is_main && is_own_state(walk, state)) {
        return 1;
    }
    if (!scratch->is_main && (is_own_state(walk, state) || is_entered_here(walk, state))) {
        add_state(scratch, state);
    }
    scratch->state = word_at(state + walk->process->python.thread_next);
    return 0;
}

// The main interpreter's thread state of this thread: that which is remembered, unless it has a newer one. New ones come to the
// head of the list, and one that has ended still looks like its thread's, where it was.
INLINE void find_main_state(struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const uint32_t tid = scratch->sample.tid;
    const struct weft_state* known = map_lookup(&states, &tid);
    struct weft_state state = {known ? known->state : 0, scratch->state};
    if (!known || known->first != state.first) {
        scratch->until = known ? known->first : 0;
        loop(MOST_THREADS, thread_step, walk, 0);
        if (is_own_state(walk, scratch->state)) {
            state.state = scratch->state;
        }
    }
    if (!is_own_state(walk, state.state)) {
        return;
    }
    if (!known || known->first != state.first) {
        map_update(&states, &tid, &state, 0);
    }
    add_state(scratch, state.state);
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
    scratch->interpreter = word_at(python->interpreters_head);
    const int alone = scratch->interpreter && !word_at(scratch->interpreter + python->interp_next);
    const uint64_t current = python->current_state ? word_at(sample->thread_pointer + python->current_state) : 0;
    if (alone && is_own_state(walk, current)) {
        add_state(scratch, current);
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

INLINE uint64_t told_word(const struct scratch* scratch, uint32_t at) {
    return *(const uint64_t*)&scratch->bytes[at & (SCRATCH_BYTES - 1)];
}

NOT_INLINE void tell_text(struct scratch* scratch, uint64_t address, uint32_t size) {
    // At the end of a page, what there is of it.
    if (!add_piece(scratch, address, size)) {
        add_piece(scratch, address, (4096 - (address & 4095)) & (WINDOW - 1));
    }
}

// Adds a text to what identifies its code object: its length and its hash, which is behind that; if it has none yet, its first
// characters, up to the end of a page. 0: they cannot be read.
NOT_INLINE uint64_t add_mark(struct scratch* scratch, const struct weft_python* python, uint64_t text,
                             uint64_t identity) {
    const uint64_t begin = text + python->text_length;
    uint64_t head[2];
    if (read_user(head, sizeof head, begin)) {
        return 0;
    }
    uint64_t mark = weft_mix(head[0], head[1]);
    if (head[1] != ~0ull) {
        return weft_mix(identity, mark);
    }
    uint64_t data = begin + python->bytes_data;
    uint64_t size = head[0];
    if (scratch->is_str) {
        uint32_t state = 0;
        if (read_user(&state, sizeof state, begin + python->str_state)) {
            return 0;
        }
        state >>= python->str_kind_shift & 31;
        data = begin + (state & 16 ? python->str_ascii_data : python->str_compact_data);
        size = head[0] * (state & 7);
    }
    const uint64_t rest = (4096 - (data & 4095)) / sizeof *scratch->mark;
    const uint64_t words =
        size / sizeof *scratch->mark + (size % sizeof *scratch->mark != 0);  // its last one is its own
    const uint32_t count = words < rest ? words < WEFT_MARK ? words : WEFT_MARK : rest < WEFT_MARK ? rest : WEFT_MARK;
    if (count > WEFT_MARK || read_user(scratch->mark, count * sizeof *scratch->mark, data)) {
        return 0;
    }
    for (uint32_t i = 0; i < WEFT_MARK && i < count; ++i) {
        mark = weft_mix(mark, scratch->mark[i]);
    }
    return weft_mix(identity, mark);
}

INLINE uint64_t code_word(const struct scratch* scratch, uint32_t offset) {
    return offset == WEFT_ABSENT ? 0 : *(const uint64_t*)&scratch->code[offset & (MOST_CODE - 1)];
}

// A number for a code object that no other one at its address has had, from its bytes in scratch->code: that of native/python/code.cpp.
// 0: its texts are not resident. Then it was not made just now, and may be looked at later.
NOT_INLINE uint64_t identity_of(struct scratch* scratch, const struct weft_python* python) {
    const uint32_t version = code_word(scratch, python->code_version);
    uint64_t identity = weft_mix(version, (uint32_t)code_word(scratch, python->code_firstlineno));
    for (uint32_t i = 0; i < WEFT_TEXTS; ++i) {
        const uint64_t text = code_word(scratch, python->code_text[i]);
        identity = weft_mix(identity, text);
        if (!version && text) {
            scratch->is_str = i != WEFT_LINE_TABLE && python->str_state != WEFT_ABSENT;
            identity = add_mark(scratch, python, text, identity);
            if (!identity) {
                return 0;
            }
        }
    }
    return identity | 1;
}

// Tells which code object a frame runs; and one that was not told before, what it says of itself: read later, that might have been
// freed, and its memory used for another one.
NOT_INLINE long tell_code(struct walk* walk, uint64_t code) {
    struct scratch* scratch = walk->scratch;
    const struct weft_python* python = &walk->process->python;
    struct seen_code* seen = &scratch->seen[(code >> 4 ^ code >> 10) & (CODES_SEEN - 1)];
    if (!code || (seen->code == code && seen->time_ns == scratch->sample.time_ns)) {
        return 0;
    }
    const uint32_t size = python->code_size;
    if (size > MOST_CODE || read_user(scratch->code, size, code + python->code_begin)) {
        return 0;
    }
    const uint64_t identity = identity_of(scratch, python);
    if (!identity || !add_code(scratch, code, identity)) {
        return 0;
    }
    seen->code = code;
    seen->time_ns = scratch->sample.time_ns;
    const uint64_t told = weft_mix(weft_mix(identity, code), scratch->generation);
    uint64_t* known = &walk->told->codes[told & (CODES_TOLD - 1)];
    if (*known == told || scratch->used > SCRATCH_BYTES / 2) {  // the rest is for frames
        return 0;
    }
    *known = told;
    add_piece(scratch, code + python->code_begin, size);
    for (uint32_t i = 0; i < WEFT_TEXTS; ++i) {
        const uint64_t text = code_word(scratch, python->code_text[i]);
        if (text) {
            tell_text(scratch, text, i == WEFT_LINE_TABLE ? WINDOW : WINDOW / 4);
        }
    }
    return 0;
}

static long frame_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    const struct weft_python* python = &walk->process->python;
    if (!scratch->frame) {
        scratch->end = WEFT_END_WHOLE;
        return 1;
    }
    if (scratch->sample.python_frames == MOST_PYTHON) {
        return 1;  // of all thread states
    }
    const uint32_t at = frame_bytes(scratch, scratch->frame, python->frame_size);
    if (!at) {
        scratch->end = scratch->used > SCRATCH_BYTES - 2 * SCRATCH_SLACK ? WEFT_END_DEPTH : WEFT_END_UNREADABLE;
        return 1;
    }
    scratch->sample.python_frames++;
    tell_code(walk, told_word(scratch, at + python->frame_code) & ~(uint64_t)python->frame_code_tags);
    scratch->frame = told_word(scratch, at + python->frame_previous);
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
    const uint32_t at = add_piece(scratch, cframe + python->cframe_frame, python->cframe_size);
    if (!at) {
        return 1;
    }
    const uint32_t previous = at + python->cframe_previous - python->cframe_frame;
    scratch->cframe = *(uint64_t*)&scratch->bytes[previous & (SCRATCH_BYTES - 1)];
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
    const uint32_t at = add_piece(scratch, state, python->thread_size);
    if (!at) {
        sample->python_end = WEFT_END_UNREADABLE;
        return 0;
    }
    scratch->state = state;
    scratch->block_size = 0;
    scratch->block = 0;
    scratch->end = WEFT_END_DEPTH;
    uint64_t frame = *(uint64_t*)&scratch->bytes[(at + python->thread_frame) & (SCRATCH_BYTES - 1)];
    if (python->cframe_frame != WEFT_ABSENT && frame) {
        const uint32_t cframe = add_piece(scratch, frame + python->cframe_frame, python->cframe_size);
        if (!cframe) {
            sample->python_end = WEFT_END_UNREADABLE;
            return 0;
        }
        frame = *(uint64_t*)&scratch->bytes[cframe & (SCRATCH_BYTES - 1)];
    }
    scratch->frame = frame;
    loop(MOST_PYTHON, frame_step, walk, 0);
    if (scratch->end != WEFT_END_WHOLE || sample->python_end == WEFT_END_NO_STATE) {
        sample->python_end = scratch->end;
    }
    if (python->cframe_previous != WEFT_ABSENT) {
        scratch->cframe = *(uint64_t*)&scratch->bytes[(at + python->thread_cframe) & (SCRATCH_BYTES - 1)];
        loop(MOST_PYTHON, cframe_step, walk, 0);
    }
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
    no_python(walk);
    if (walk->process->python.interpreters_head) {
        find_states(walk);
        loop(MOST_STATES, state_step, walk, 0);
    }
}
