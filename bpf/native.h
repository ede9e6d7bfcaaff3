// The walk along the native frames. What it does at each is told by rules (native/unwind/rule.h), found by its code.
#pragma once

#include "sample.h"

enum { MOST_NATIVE = 2048 };

// What is remembered of a rule besides: that its code is an eval loop's.
#define IN_EVAL_LOOP (1ull << 62)

// One step of a binary search for how many entries of a sorted run begin at `wanted` or before. Without branches (see HIDE).
#define STEP(position, bits, limit, entry_begin, wanted)         \
    {                                                            \
        const uint32_t probe = position + (1u << (bits));        \
        uint64_t inside = (uint64_t)probe - (limit) - 1;         \
        uint64_t below = (uint64_t)(entry_begin) - (wanted) - 1; \
        HIDE(inside);                                            \
        HIDE(below);                                             \
        uint64_t step = (inside & below) >> 63;                  \
        HIDE(step);                                              \
        position += (uint32_t)step << (bits);                    \
        HIDE(position);                                          \
    }

// The mapping that holds an address; WEFT_MAPPINGS: none.
GLOBAL uint32_t find_mapping(struct weft_process* process, uint64_t address) {
    if (!process) {
        return WEFT_MAPPINGS;
    }
    const uint32_t mappings = process->mappings;
    uint32_t found = 0;
#define MAPPING_STEP(bits) \
    STEP(found, bits, mappings, process->mapping[(probe - 1) & (WEFT_MAPPINGS - 1)].begin, address)
    MAPPING_STEP(9)
    MAPPING_STEP(8)
    MAPPING_STEP(7)
    MAPPING_STEP(6)
    MAPPING_STEP(5)
    MAPPING_STEP(4)
    MAPPING_STEP(3)
    MAPPING_STEP(2)
    MAPPING_STEP(1)
    MAPPING_STEP(0)
    if (found == 0) {
        return WEFT_MAPPINGS;
    }
    const uint32_t index = (found - 1) & (WEFT_MAPPINGS - 1);
    return address < process->mapping[index].end ? index : WEFT_MAPPINGS;
}

// The chunk of rows that the row of a number lies in, from its first row on; null: there is none.
INLINE uint32_t* chunk_at(uint32_t row) {
    const uint32_t chunk = row / WEFT_CHUNK;
    const uint32_t zero = 0;
    void* map = map_lookup(&rows, &chunk);
    return map ? map_lookup(map, &zero) : 0;
}

// The number of the rule that holds at an address of a table's module; 0: none.
GLOBAL uint32_t find_rule(struct weft_table* table, uint64_t address) {
    const uint32_t zero = 0;
    uint32_t* first_rows = map_lookup(&pages, &zero);
    if (!table || !first_rows) {
        return 0;
    }
    const uint32_t page = (uint32_t)(address >> 12) - table->first_page;
    if (page >= table->pages) {
        return 0;
    }
    const uint32_t entry = table->pages_at + page;
    const uint32_t begin = first_rows[entry & (WEFT_PAGES - 1)];
    const uint32_t rows_here = first_rows[(entry + 1) & (WEFT_PAGES - 1)] - begin;
    uint32_t* chunk = chunk_at(table->rows_at + begin);
    if (!chunk) {
        return 0;
    }
    uint32_t* page_rows = &chunk[(table->rows_at + begin) & (WEFT_CHUNK - 1)];
    const uint64_t low = address & 0xfff;
    uint32_t found = 0;
#define ROW_STEP(bits) STEP(found, bits, rows_here, page_rows[(probe - 1) & (WEFT_OVERLAP - 1)] & 0xfff, low)
    if (rows_here > 255) {
        ROW_STEP(12)
        ROW_STEP(11)
        ROW_STEP(10)
        ROW_STEP(9)
        ROW_STEP(8)
    }
    if (rows_here > 15) {
        ROW_STEP(7)
        ROW_STEP(6)
        ROW_STEP(5)
        ROW_STEP(4)
    }
    ROW_STEP(3)
    ROW_STEP(2)
    ROW_STEP(1)
    ROW_STEP(0)
    if (found == 0) {
        return 0;
    }
    return table->rules_at + (page_rows[(found - 1) & (WEFT_OVERLAP - 1)] >> 12);
}

INLINE int is_in_eval_loop(const struct weft_process* process, uint64_t address) {
    for (int i = 0; i < WEFT_EVAL_LOOPS; ++i) {
        if (address >= process->eval_loop[i].begin && address < process->eval_loop[i].end) {
            return 1;
        }
    }
    return 0;
}

// The rule of an address that the CPU has not met lately; and remembers it.
NOT_INLINE uint64_t look_up_rule(struct walk* walk, uint64_t address, struct cached_rule* cached) {
    struct scratch* scratch = walk->scratch;
    struct weft_process* process = walk->process;
    uint32_t index = scratch->mapping & (WEFT_MAPPINGS - 1);
    if (address < process->mapping[index].begin || address >= process->mapping[index].end ||
        index >= process->mappings) {
        index = find_mapping(process, address);
        if (index >= WEFT_MAPPINGS) {
            scratch->end = WEFT_END_NO_MODULE;
            return 0;
        }
        scratch->mapping = index;
    }
    const struct weft_mapping* mapping = &process->mapping[index & (WEFT_MAPPINGS - 1)];
    const uint32_t table_number = mapping->table;
    const uint32_t zero = 0;
    struct weft_table* table = map_lookup(&tables, &table_number);
    struct weft_rule* every = map_lookup(&rules, &zero);
    if (!table || !every) {
        scratch->end = WEFT_END_NO_MODULE;
        return 0;
    }
    const uint32_t number = find_rule(table, address - mapping->bias) & (WEFT_RULES - 1);
    if (!number) {
        scratch->end = WEFT_END_NO_RULE;
        return 0;
    }
    const uint64_t fast = scratch->all_registers ? 0 : every[number].fast;
    cached->key = scratch->rule_key ^ address;
    cached->rule = (fast ? fast : number) | (is_in_eval_loop(process, address) ? IN_EVAL_LOOP : 0);
    return cached->rule;
}

// What holds at the frame's code: weft_rule.fast, or else the rule's number, and IN_EVAL_LOOP; 0: nothing, and scratch->end says why.
INLINE uint64_t rule_at(struct walk* walk, uint64_t address) {
    // No address of user mode, and the cache must not take it for another.
    if (address >> 47) {
        walk->scratch->end = WEFT_END_NO_MODULE;
        return 0;
    }
    struct cached_rule* cached = &walk->cache->rules[(address * 0x9e3779b97f4a7c15ull) >> 50 & (CACHED_RULES - 1)];
    const uint64_t remembered = cached->rule;
    if (cached->key == (walk->scratch->rule_key ^ address) && remembered) {  // 0: user mode is about to forget it
        return remembered;
    }
    return look_up_rule(walk, address, cached);
}

// Reads the stack around an address into the window: from there on, and where windows are told, with what an activation may keep
// below it. There is room for these: a rule moves it eight times at most. Nonzero: it cannot be read.
GLOBAL int move_window(struct scratch* scratch, uint64_t address) {
    if (!scratch) {
        return 1;
    }
    const uint32_t number = (scratch->kept + 1) & (WINDOWS_KEPT - 1);
    const uint32_t piece_at = scratch->used;
    uint32_t at = WINDOWS_AT + number * STACK_WINDOW;
    uint64_t begin = address;
    if (scratch->tells_windows) {
        at = piece_at + sizeof(struct weft_piece);
        const uint64_t into_frame = address - scratch->registers[RSP];
        begin -= into_frame < ACTIVATION ? into_frame & ~7ull : ACTIVATION;
    }
    uint8_t* window = &scratch->bytes[at & (SCRATCH_BYTES - 1)];
    uint32_t size = STACK_WINDOW;
    scratch->kept_begin[number] = begin;
    if (read_user(window, STACK_WINDOW, begin)) {
        scratch->kept_begin[number] = 0;
        // What of it is in the word's own page.
        const uint64_t page = address & ~4095ull;
        begin = begin < page ? page : begin;
        const uint32_t rest = 4096 - (begin & 4095);
        size = rest < STACK_WINDOW ? rest : STACK_WINDOW - 8;
        if (address - begin + 8 > size) {
            begin = address;
            size = 8;
        }
        if (read_user(window, size & (STACK_WINDOW - 1), begin)) {
            scratch->window_words = 0;
            return 1;
        }
    }
    if (scratch->tells_windows) {
        end_piece(scratch, piece_at, begin, size);
    }
    scratch->kept = number;
    scratch->kept_at[number] = at;
    scratch->window_at = at;
    scratch->window_begin = begin;
    scratch->window_words = size - 7;
    return 0;
}

// Reads a word of the stack. Nonzero: it cannot be read.
INLINE int stack_word(struct scratch* scratch, uint64_t address, uint64_t* word) {
    uint64_t at = address - scratch->window_begin;
    if (at >= scratch->window_words) {
        if (move_window(scratch, address)) {
            return 1;
        }
        at = address - scratch->window_begin;
    }
    *word = *word_in(scratch->bytes, (scratch->window_at + at) & (SCRATCH_BYTES - 1));
    return 0;
}

// One register of the caller. Nonzero: it cannot be had, and nothing is changed.
INLINE int restore(struct scratch* scratch, const struct weft_saved* saved, uint32_t number, uint64_t* value) {
    const uint32_t where = saved->where;
    const uint32_t base = where == WEFT_SAME ? number : saved->base & 31;
    if (where == WEFT_LOST || !(scratch->known >> base & 1)) {
        return 1;
    }
    if (where == WEFT_SAME) {
        *value = scratch->registers[base];
        return 0;
    }
    const uint64_t sum = scratch->registers[base] + (int64_t)saved->offset;
    if (where == WEFT_IN_REGISTER) {
        *value = sum;
        return 0;
    }
    return stack_word(scratch, sum, value);
}

INLINE struct weft_frame* add_frame(struct scratch* scratch) {
    const uint32_t at = scratch->used;
    if (at > NATIVE_ROOM) {
        scratch->end = WEFT_END_DEPTH;
        return 0;
    }
    uint64_t* registers = scratch->registers;
    struct weft_piece* piece = (struct weft_piece*)&scratch->bytes[at & (SCRATCH_BYTES - 1)];
    struct weft_frame* frame = (struct weft_frame*)(piece + 1);
    piece->address = registers[PC];
    piece->size = WEFT_SHORT_FRAME;
    piece->kind = scratch->is_return ? WEFT_CALLER : WEFT_FRAME;
    frame->stack_pointer = registers[RSP];
    frame->cfa = 0;
    scratch->used = at + sizeof *piece + WEFT_SHORT_FRAME;
    scratch->sample.native_frames++;
    return frame;
}

// Tells the registers, too, of the frame that was added last.
INLINE void add_registers(struct scratch* scratch, struct weft_frame* frame) {
    const uint64_t* registers = scratch->registers;
    struct weft_piece* piece = (struct weft_piece*)frame - 1;
    piece->size = sizeof *frame;
    frame->preserved[0] = registers[RBX];
    frame->preserved[1] = registers[RBP];
    frame->preserved[2] = registers[R12];
    frame->preserved[3] = registers[R13];
    frame->preserved[4] = registers[R14];
    frame->preserved[5] = registers[R15];
    scratch->used += sizeof *frame - WEFT_SHORT_FRAME;
}

// To the caller, by a rule of the one form (abi.h). Nonzero: there is none.
INLINE int to_caller_fast(struct scratch* scratch, struct weft_frame* frame, uint64_t rule) {
    uint64_t* registers = scratch->registers;
    const uint32_t by_rbp = rule & WEFT_FAST_BY_RBP ? 1u << RBP : 0;
    if (by_rbp & ~scratch->known) {
        scratch->end = WEFT_END_NO_REGISTER;
        return 1;
    }
    const uint64_t cfa = (by_rbp ? registers[RBP] : registers[RSP]) + (int64_t)(int32_t)rule;
    const int64_t saved = (int16_t)(rule >> 32);
    scratch->end = WEFT_END_NO_RULE;
    if (cfa <= registers[RSP]) {
        return 1;
    }
    scratch->end = WEFT_END_UNREADABLE;
    uint32_t known = scratch->known & 1u << RBP;
    if (saved) {
        known = stack_word(scratch, cfa + saved, &registers[RBP]) ? 0 : 1u << RBP;
    }
    if (stack_word(scratch, cfa - 8, &registers[PC])) {
        return 1;
    }
    frame->cfa = cfa;
    registers[RSP] = cfa;
    scratch->known = known | 1u << RSP | 1u << PC;
    scratch->is_return = 1;
    return 0;
}

// The same, by any rule.
GLOBAL int to_caller(struct scratch* scratch, struct weft_frame* frame, uint64_t number) {
    const uint32_t zero = 0;
    struct weft_rule* all = map_lookup(&rules, &zero);
    if (!scratch || !frame || !all) {
        return 1;
    }
    uint64_t* registers = scratch->registers;
    const struct weft_rule* rule = &all[number & (WEFT_RULES - 1)];
    if (rule->cfa == WEFT_CFA_END) {
        scratch->end = WEFT_END_WHOLE;
        return 1;
    }
    const uint32_t base = rule->base & 31;
    scratch->end = WEFT_END_NO_RULE;
    if (rule->cfa == WEFT_CFA_NONE) {
        return 1;
    }
    if (!(scratch->known >> base & 1)) {
        scratch->end = WEFT_END_NO_REGISTER;
        return 1;
    }
    uint64_t cfa = registers[base] + (int64_t)rule->offset;
    if (rule->cfa == WEFT_CFA_PLT) {
        cfa += (registers[PC] & 15) >= (uint64_t)(int64_t)rule->addend ? 8 : 0;
    } else if (rule->cfa == WEFT_CFA_DEREF) {
        if (stack_word(scratch, cfa, &cfa)) {
            scratch->end = WEFT_END_UNREADABLE;
            return 1;
        }
        cfa += (int64_t)rule->addend;
    }
    if (cfa <= registers[RSP] && !rule->signal) {
        return 1;
    }
    registers[WEFT_CFA] = cfa;
    scratch->known |= 1u << WEFT_CFA;

    uint64_t caller[WEFT_PRESERVED + 1];
    uint32_t known = 0;
    uint64_t value = 0;
#define RESTORE(slot, number)                                    \
    value = 0;                                                   \
    if (!restore(scratch, &rule->saved[slot], number, &value)) { \
        known |= 1u << (number);                                 \
    }                                                            \
    caller[slot] = value;
    RESTORE(6, PC)
    if (!known) {
        scratch->end = WEFT_END_UNREADABLE;
        return 1;
    }
    RESTORE(0, RBX)
    RESTORE(1, RBP)
    RESTORE(2, R12)
    RESTORE(3, R13)
    RESTORE(4, R14)
    RESTORE(5, R15)
    frame->cfa = cfa;
    registers[RBX] = caller[0];
    registers[RBP] = caller[1];
    registers[R12] = caller[2];
    registers[R13] = caller[3];
    registers[R14] = caller[4];
    registers[R15] = caller[5];
    registers[PC] = caller[6];
    registers[RSP] = cfa;
    scratch->known = known | 1u << RSP;
    scratch->is_return = !rule->signal;
    return 0;
}

// Whether the eight bytes before an address end in a call: by its distance, by a register, or through memory that is not indexed.
// Others than these are rare (native/unwind/code_rule.cpp knows them all).
INLINE int ends_in_call(uint64_t bytes) {
    const uint32_t last = bytes >> 56;
    const uint32_t second = bytes >> 48 & 0xff;
    const uint32_t third = bytes >> 40 & 0xff;
    const uint32_t fifth = bytes >> 24 & 0xff;
    const uint32_t sixth = bytes >> 16 & 0xff;
    return fifth == 0xe8 || (second == 0xff && (last & 0xf8) == 0xd0) ||
           (third == 0xff && (second & 0xf8) == 0x50 && second != 0x54) || (sixth == 0xff && fifth == 0x15) ||
           (sixth == 0xff && (fifth & 0xf8) == 0x90 && fifth != 0x94);
}

// The same, where nothing is known of the code, but what follows the call that it waits for goes straight to its return: CPython's
// perf trampolines (Python/asm_trampoline.S). The unwinder would do the same (rule_without_table), if it leads to a caller's place.
// Its other ways are its own. Nonzero: it is not such code.
GLOBAL int to_caller_straight(struct scratch* scratch, struct weft_process* process, struct weft_frame* frame) {
    if (!scratch || !frame) {
        return 1;
    }
    uint64_t* registers = scratch->registers;
    uint64_t code = 0;
    if (!scratch->is_return || read_user(&code, sizeof code, registers[PC])) {
        return 1;
    }
    uint64_t cfa = registers[RSP] + 8;
    const int pops = (code & 0xffff) == 0xc35d;  // pop %rbp; ret
    if (pops) {
        cfa += 8;
    } else if ((code & 0xff00ffffff) == 0xc300c48348) {  // add $n,%rsp; ret
        cfa += (int64_t)(signed char)(code >> 24);
    } else {
        return 1;
    }
    uint64_t pc = 0;
    uint64_t before = 0;
    if (cfa <= registers[RSP] || cfa & 7 || stack_word(scratch, cfa - 8, &pc)) {
        return 1;
    }
    if (pc >> 47 || find_mapping(process, pc - 1) >= WEFT_MAPPINGS ||
        read_user(&before, sizeof before, pc - sizeof before) || !ends_in_call(before)) {
        return 1;
    }
    if (pops) {
        scratch->known &= ~(1u << RBP);
        if (!stack_word(scratch, cfa - 16, &registers[RBP])) {
            scratch->known |= 1u << RBP;
        }
    }
    frame->cfa = cfa;
    registers[RSP] = cfa;
    registers[PC] = pc;
    return 0;
}

static long native_step(uint32_t index, struct walk* walk) {
    struct scratch* scratch = walk->scratch;
    struct weft_frame* frame = add_frame(scratch);
    if (!frame) {
        return 1;
    }
    const uint64_t code = scratch->registers[PC] - scratch->is_return;
    const uint64_t rule = rule_at(walk, code);
    if (!rule && (scratch->end != WEFT_END_NO_RULE || to_caller_straight(scratch, walk->process, frame))) {
        return 1;
    }
    if (rule & IN_EVAL_LOOP && scratch->tells_windows) {
        add_registers(scratch, frame);
    }
    if (rule && (rule & WEFT_FAST ? to_caller_fast(scratch, frame, rule) : to_caller(scratch, frame, rule))) {
        return 1;
    }
    if (!scratch->registers[PC]) {
        scratch->end = WEFT_END_WHOLE;
        return 1;
    }
    scratch->end = WEFT_END_DEPTH;
    return 0;
}

// Those of an earlier sample.
INLINE void forget_windows(struct scratch* scratch) {
    for (int i = 0; i < WINDOWS_KEPT; ++i) {
        scratch->kept_begin[i] = 0;
    }
}

INLINE void walk_with(struct walk* walk, uint32_t all_registers) {
    struct scratch* scratch = walk->scratch;
    struct weft_sample* sample = &scratch->sample;
    for (int i = 0; i < WEFT_REGISTERS; ++i) {
        scratch->registers[i] = sample->registers[i];
    }
    scratch->known = (1u << WEFT_REGISTERS) - 1;
    scratch->is_return = 0;
    scratch->mapping = 0;
    scratch->window_words = 0;
    scratch->window_begin = 0;
    scratch->end = WEFT_END_DEPTH;
    scratch->used = 0;
    sample->native_frames = 0;
    scratch->all_registers = all_registers;
    scratch->tells_windows = walk->process->anchors_are_values;
    scratch->rule_key = (uint64_t)all_registers << 47 | (uint64_t)scratch->generation << 48;
    loop(MOST_NATIVE, native_step, walk, 0);
    sample->native_end = scratch->end;
}

// There are no native frames, or they are not wanted.
INLINE void no_native(struct walk* walk) {
    walk->scratch->used = 0;
    walk->scratch->sample.native_frames = 0;
    walk->scratch->sample.native_end = WEFT_END_WHOLE;
}

INLINE void walk_native(struct walk* walk) {
    if (!wants_native()) {
        no_native(walk);
        return;
    }
    walk_with(walk, walk->process->anchors_are_values);
    if (walk->scratch->end == WEFT_END_NO_REGISTER && !walk->process->anchors_are_values) {
        walk_with(walk, 1);
    }
}
