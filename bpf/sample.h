// What one sample is built in, and the maps.
#pragma once

#include "bpf.h"

enum {
    CACHED_RULES = 1 << 14,
    WINDOW = 1 << 10,
    STACK_WINDOW = 1 << 11,
    WINDOWS_KEPT = 8,  // on the stack
    ACTIVATION = 512,  // bytes from its CFA down, in which an activation keeps its anchor (kMaxSlot in weave/weave.cpp)
    KERNEL_STACK = 1 << 10,       // bytes
    MOST_KERNEL_STACK = 1 << 14,  // bytes; THREAD_SIZE (arch/x86/include/asm/page_64_types.h)
    KERNEL_WORDS = 1 << 8,        // of it, that are read
    KERNEL_CHAINS = 1 << 7,
    CHAINS_OF_ONE = 4,  // system call
    MOST_CHAINED = 32,
    MOST_OWN = 3,       // return addresses in our own program, and in who has called it
    CONFIRMED = 3,      // times
    MOST_COPIED = 128,  // bytes
    MOST_STATES = 8,    // thread states of one thread
    CODES_SEEN = 64,
    CODES_TOLD = 1 << 14,
    TEXT_BLOCK = 64,  // bytes that are read of a text at once: what it says of itself, and short ones whole
    TEXTS_MARKED = 16,
    BLOCK = 1 << 12,  // a page
    BLOCKS = 8,
    OBJECT_BYTES = 2 * BLOCKS * BLOCK,
};

// Of a kernel's address, all but the low 31 bits (Documentation/arch/x86/x86_64/mm.rst).
#define KERNEL_TEXT 0x1ffffffffull

// Of scratch->bytes.
enum {
    SCRATCH_BYTES = 1 << 20,
    SCRATCH_SLACK = 1 << 11,                                   // what one write may take behind it
    WINDOWS_AT = SCRATCH_BYTES - WINDOWS_KEPT * STACK_WINDOW,  // those that are not told
    ROOM = WINDOWS_AT - 2 * SCRATCH_SLACK,                     // for what is told
    NATIVE_ROOM = SCRATCH_BYTES / 8 * 5,                       // and for native frames; the rest is for Python's
};

// DWARF's numbers of registers, and the pc.
enum { RBX = 3, RBP = 6, RSP = 7, R12 = 12, R13 = 13, R14 = 14, R15 = 15, PC = 16 };

struct cached_rule {
    uint64_t key;
    uint64_t rule;
};
struct rule_cache {
    struct cached_rule rules[CACHED_RULES];
};

// Code objects whose texts were told, each as a number that stands for all of it.
struct told_codes {
    uint64_t codes[CODES_TOLD];
};

// A text of a code object, what tells it from others, and in which sample it was read.
struct marked {
    uint64_t text;
    uint64_t mark;
    uint64_t time_ns;
};

// A code object that was met, and in which sample.
struct seen_code {
    uint64_t code;
    uint64_t time_ns;
};

// What is read of objects: the blocks that they lie in, and the bytes of those from which more than one was read.
struct block {
    uint64_t begin;
    uint64_t time_ns;  // of the sample
    uint64_t is_read;  // as a whole
};
struct objects {
    struct block block[BLOCKS];
    uint8_t bytes[OBJECT_BYTES + BLOCK];  // of the blocks, and behind them of an object that was read alone
};

// A stack of the kernel's, which may be met again.
struct kernel_chain {
    uint32_t frames;  // 0: there is none
    uint32_t own;     // of these, that are below what is read of the stack
    uint32_t confirmed;
    uint32_t unused;
    uint64_t address[MOST_CHAINED];  // innermost first
    uint16_t at[MOST_CHAINED];       // where it was, in words; KERNEL_WORDS: at the end
};

// The state of the walks is in a map's value, where the verifier does not follow it. What is large comes last: instructions have
// 16 bits for an offset.
struct scratch {
    // native.h
    uint64_t registers[32];  // of the frame at hand; the 18th is its CFA
    uint32_t known;          // a bit for each
    uint32_t is_return;
    uint32_t all_registers;
    uint32_t generation;  // of what is known of the process, as the walk began
    uint64_t rule_key;    // of rules that are remembered: what they hold for, but for the address
    uint32_t mapping;     // where the last code was found
    uint32_t end;
    uint64_t window_begin;
    uint32_t window_words;              // places in it that a word can begin at
    uint32_t window_at;                 // in `bytes`
    uint32_t tells_windows;             // they are pieces of what is told
    uint32_t kept;                      // the number of the last one that was kept
    uint32_t kept_at[WINDOWS_KEPT];     // in `bytes`
    uint64_t kept_begin[WINDOWS_KEPT];  // where those begin that are whole; 0: there is none

    // python.h
    uint64_t interpreter;
    uint64_t state;
    uint64_t until;  // the thread state that the search ends at; 0: it goes through all
    uint64_t idle;   // the first one of this thread's that it has found, if that has no frames
    uint64_t found[MOST_STATES];
    uint32_t states;   // that were found
    uint32_t is_main;  // the interpreter
    uint32_t looks;    // at thread states
    uint32_t told_at;  // where the bytes are of told_state; of another one nothing is told yet
    uint64_t told_state;
    uint64_t frame;
    uint64_t milestone;  // a frame before it
    uint64_t cframe;
    uint64_t block;  // what frames are read from, as a piece that is told anyway
    uint64_t alone;  // the last frame that was read alone
    uint32_t block_size;
    uint32_t block_at;

    // kernel_stack.h
    uint64_t kernel_begin;  // the tracepoint's arguments
    uint64_t kernel_end;    // the thread's registers
    uint32_t kernel_words;  // that are read
    uint32_t is_read;
    uint32_t is_met;     // it is the chain at hand
    uint32_t chain;      // that one's number
    uint32_t placed;     // of its addresses
    uint32_t forgotten;  // how many, for others

    // allocations.h
    uint32_t taken;  // a walk uses it now

    uint32_t used;  // of `bytes`

    // code.h
    struct seen_code seen[CODES_SEEN];
    struct marked marked[TEXTS_MARKED];
    uint64_t mark;
    uint32_t code_at;  // in `code`

    struct weft_sample sample;  // what is told begins here
    uint8_t bytes[SCRATCH_BYTES + SCRATCH_SLACK];

    struct objects code;  // code.h
    struct objects texts;

    uint64_t kernel[2 * KERNEL_WORDS];  // kernel_stack.h
    struct kernel_chain chains[KERNEL_CHAINS];
};

struct walk {
    struct weft_process* process;
    struct scratch* scratch;
    struct rule_cache* cache;
    struct told_codes* told;
};

MAP(processes, struct weft_process);        // by their pid
MAP(ignored, uint8_t);                      // by their pid: those that are not to be sampled; it has lost some, perhaps
MAP(others, struct weft_process);           // one value: all that are not among them
MAP(name_space, uint32_t);                  // one value: weft's PID namespace, the number of its file in /proc/PID/ns
MAP(tables, struct weft_table);             // by their number
MAP(pages, uint32_t);                       // one value with all of them
MAP(rows, uint32_t);                        // by the number of a chunk, a map of one value with all that are in it
MAP(rules, struct weft_rule);               // one value with all of them
MAP(scratches, struct scratch);             // by CPU
MAP(caches, struct rule_cache);             // by CPU
MAP(codes, struct told_codes);              // one value
MAP(states, struct weft_state);             // by tid
MAP(threads, struct weft_thread);           // by their tid; empty where switches are not told
MAP(rates, struct weft_rate);               // of samples at switches, by CPU
MAP(allocations, struct weft_allocations);  // by CPU
MAP(lost, uint64_t);                        // samples that found the ring full
MAP(ring, struct weft_sample);

// Eight of an array's bytes. To clang the address of a byte has no alignment, and it would load and store them one by one: what a
// function returns has that of its type.
INLINE uint64_t* word_in(uint8_t* bytes, uint32_t at) { return (uint64_t*)&bytes[at]; }

// Tells a record. Nobody waits for one: user mode looks now and then, and is woken where too much lies in the ring. Nonzero: there is
// no room.
INLINE long tell(void* record, uint64_t size) {
    const int fills = ring_query(&ring, RING_AVAILABLE_DATA) > WEFT_RING_FILLS;
    return ring_output(&ring, record, size, fills ? RING_FORCE_WAKEUP : RING_NO_WAKEUP);
}

INLINE void count_lost(void) {
    const uint32_t zero = 0;
    uint64_t* number = map_lookup(&lost, &zero);
    if (number) {
        ++*number;
    }
}

// The piece of memory whose bytes lie behind `at` in scratch->bytes already; their offset there.
INLINE uint32_t end_piece(struct scratch* scratch, uint32_t at, uint64_t address, uint32_t size) {
    const uint32_t data = at + sizeof(struct weft_piece);
    struct weft_piece* piece = (struct weft_piece*)&scratch->bytes[at & (SCRATCH_BYTES - 1)];
    piece->address = address;
    piece->size = size;
    piece->kind = WEFT_MEMORY;
    scratch->used = data + ((size + 7) & ~7u);
    return data;
}

// Adds memory of the target as a piece. What it holds is at the offset in scratch->bytes that is returned; 0: it could not be
// read (or there is no room).
GLOBAL uint32_t add_piece(struct scratch* scratch, uint64_t address, uint32_t size) {
    if (!scratch) {
        return 0;
    }
    const uint32_t at = scratch->used;
    if (at > ROOM || size > SCRATCH_SLACK) {
        return 0;
    }
    HIDE(size);
    if (size == 0) {
        return 0;
    }
    const uint32_t data = at + sizeof(struct weft_piece);
    if (read_user(&scratch->bytes[data & (SCRATCH_BYTES - 1)], size, address)) {
        return 0;
    }
    return end_piece(scratch, at, address, size);
}

// The same of what may lie on the stack: it is copied from where the walk along the native frames has read it, for half of what a
// read costs, or was told there.
GLOBAL uint32_t add_stack_piece(struct scratch* scratch, uint64_t address, uint32_t size) {
    if (!scratch) {
        return 0;
    }
    const uint32_t at = scratch->used;
    if (at > ROOM || size > MOST_COPIED) {
        return add_piece(scratch, address, size);
    }
    const uint32_t to = at + sizeof(struct weft_piece);
    for (uint32_t window = 0; window < WINDOWS_KEPT; ++window) {
        const uint64_t begin = scratch->kept_begin[window];
        const uint64_t into = address - begin;
        if (!begin || into > STACK_WINDOW - size) {
            continue;
        }
        const uint32_t from = scratch->kept_at[window] + (uint32_t)into;
        if (scratch->tells_windows) {
            return from;
        }
        for (uint32_t i = 0; i < MOST_COPIED && i < size; i += sizeof(uint64_t)) {
            *word_in(scratch->bytes, (to + i) & (SCRATCH_BYTES - 1)) =
                *word_in(scratch->bytes, (from + i) & (SCRATCH_BYTES - 1));
        }
        return end_piece(scratch, at, address, size);
    }
    return add_piece(scratch, address, size);
}
