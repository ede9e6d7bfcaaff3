// Where a thread is in the kernel: return addresses, as the kernel's unwinder finds them. It looks up what holds at each of them, in
// tables that are in no cache by the time that a thread leaves its CPU: 16 us. But that depends on the address alone, and says how far
// from this return address the next one is. So where all of them stand as far from one another as in a stack that was unwound, from
// the innermost out, the stack is the same, and need not be unwound.
#pragma once

#include "sample.h"

// Reads the kernel's stack from the tracepoint's arguments on, which lie on it, up to the thread's registers of user mode, as far as
// there is room; and by itself the word before these, the return address of the kernel's entry: between it and the others there is a
// gap by chance (CONFIG_RANDOMIZE_KSTACK_OFFSET). Nonzero: it cannot be had.
INLINE long read_kernel_stack(struct scratch* scratch) {
    const uint64_t begin = scratch->kernel_begin;
    uint64_t size = scratch->kernel_end - begin;
    if (size > MOST_KERNEL_STACK) {
        return 1;
    }
    size = size < KERNEL_WORDS * 8 ? size : KERNEL_WORDS * 8;
    HIDE(size);
    if (size == 0 || size > KERNEL_WORDS * 8) {
        return 1;
    }
    scratch->kernel_words = size / 8;
    return read_kernel(scratch->kernel, size, (const void*)begin) ||
           read_kernel(&scratch->kernel[KERNEL_WORDS], 8, (const void*)(scratch->kernel_end - 8));
}

INLINE struct kernel_chain* chain_at_hand(struct scratch* scratch) {
    return &scratch->chains[scratch->chain & (KERNEL_CHAINS - 1)];
}

// Whether the stack that was read is the chain at hand.
GLOBAL int is_chain(struct scratch* scratch) {
    if (!scratch) {
        return 0;
    }
    const struct kernel_chain* chain = chain_at_hand(scratch);
    const uint32_t frames = chain->frames;
    if (frames == 0) {
        return 0;
    }
    for (uint32_t i = chain->own; i < frames && i < MOST_CHAINED; ++i) {
        uint32_t frame = i;
        HIDE(frame);
        frame &= MOST_CHAINED - 1;
        const uint32_t at = chain->at[frame];
        if ((at >= scratch->kernel_words && at != KERNEL_WORDS) ||
            scratch->kernel[at & (2 * KERNEL_WORDS - 1)] != chain->address[frame]) {
            return 0;
        }
    }
    return 1;
}

// Finds the chain that the stack that was read is among those of such switches. Zero: it is none; at hand is one to be forgotten.
INLINE int find_chain(struct scratch* scratch) {
    const uint32_t first = weft_mix(scratch->sample.system_call, scratch->sample.why);
    for (uint32_t i = 0; i < CHAINS_OF_ONE; ++i) {
        scratch->chain = first + i;
        if (is_chain(scratch)) {
            return 1;
        }
    }
    scratch->chain = first + (scratch->forgotten++ & (CHAINS_OF_ONE - 1));
    return 0;
}

// Tells the thread's stack in the kernel at an offset in scratch->bytes, if it is remembered. Its size in bytes; 0: it has to be unwound.
GLOBAL uint32_t recall_kernel_stack(struct scratch* scratch, uint32_t data) {
    if (!scratch) {
        return 0;
    }
    scratch->is_read = !read_kernel_stack(scratch);
    scratch->is_met = scratch->is_read && find_chain(scratch);
    const struct kernel_chain* chain = chain_at_hand(scratch);
    if (!scratch->is_met || chain->confirmed < CONFIRMED) {
        return 0;
    }
    for (uint32_t i = 0; i < MOST_CHAINED; ++i) {
        *word_in(scratch->bytes, (data + 8 * i) & (SCRATCH_BYTES - 1)) = chain->address[i];
    }
    return chain->frames * 8;
}

// Gives a word its place in the chain at hand, if it is one of the return addresses. Each has to be there once: of two it is not known
// which is the one. But for the last that is placed, which the gap may hold of earlier system calls: the kernel's entry, whose return
// address is at the end, has one call for all of them.
static long place_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    struct kernel_chain* chain = chain_at_hand(scratch);
    const uint64_t word = scratch->kernel[index & (KERNEL_WORDS - 1)];
    const uint32_t to_place = chain->frames - 1;
    if (word >> 31 != KERNEL_TEXT) {
        return 0;
    }
    for (uint32_t i = 0; i < MOST_CHAINED && i < to_place; ++i) {
        if (word != chain->address[i]) {
            continue;
        }
        if (scratch->placed == 0 && i <= MOST_OWN) {
            scratch->placed = chain->own = i;
        }
        if (i != scratch->placed) {
            return 1;
        }
        chain->at[i & (MOST_CHAINED - 1)] = index;
        return ++scratch->placed == to_place;
    }
    return 0;
}

// Remembers a stack that was unwound: `frames` addresses at an offset in scratch->bytes. If it was met before, it is compared: it
// counts once it was the same a few times.
GLOBAL int learn_kernel_stack(struct scratch* scratch, uint32_t data, uint32_t frames) {
    if (!scratch || !scratch->is_read) {
        return 0;
    }
    struct kernel_chain* chain = chain_at_hand(scratch);
    const uint32_t last = frames - 1;
    uint64_t differs = frames ^ chain->frames;
    for (uint32_t i = 0; i < MOST_CHAINED; ++i) {
        const uint64_t address = *word_in(scratch->bytes, (data + 8 * i) & (SCRATCH_BYTES - 1));
        differs |= i < frames ? address ^ chain->address[i] : 0;
        chain->address[i] = address;
    }
    if (scratch->is_met) {
        chain->confirmed++;
        chain->frames = differs ? 0 : frames;
        return 0;
    }
    chain->confirmed = 0;
    chain->frames = last != 0 && last < MOST_CHAINED ? frames : 0;
    chain->at[last & (MOST_CHAINED - 1)] = KERNEL_WORDS;
    scratch->placed = 0;
    if (chain->frames) {
        struct walk walk = {.scratch = scratch};
        loop(scratch->kernel_words, place_step, &walk, 0);
    }
    if (scratch->placed != last || !is_chain(scratch)) {
        chain->frames = 0;
    }
    return 0;
}

// Tells where the thread is in the kernel. leaves: it leaves its CPU, and is a thread of user mode.
INLINE void add_kernel_stack(struct scratch* scratch, void* context, int leaves) {
    const uint32_t at = scratch->used;
    if (at > ROOM) {
        return;
    }
    const uint32_t data = at + sizeof(struct weft_piece);
    long size = leaves ? recall_kernel_stack(scratch, data) : 0;
    if (size == 0) {
        size = kernel_stack(context, &scratch->bytes[data & (SCRATCH_BYTES - 1)], KERNEL_STACK, 0);
        if (size <= 0) {
            return;
        }
        if (leaves) {
            learn_kernel_stack(scratch, data, size / 8);
        }
    }
    struct weft_piece* piece = (struct weft_piece*)&scratch->bytes[at & (SCRATCH_BYTES - 1)];
    piece->address = 0;
    piece->size = size;
    piece->kind = WEFT_KERNEL;
    scratch->used = data + ((uint32_t)size & ~7u);
}
