// Which code objects the frames run. They can be freed before the sample is looked at, and others made where they were.
#pragma once

#include "sample.h"

// Adds which code object it is. 0: there is no room.
INLINE int add_code(struct scratch* scratch, uint64_t code, uint64_t identity, uint32_t kind) {
    const uint32_t at = scratch->used;
    if (at > ROOM) {
        return 0;
    }
    const uint32_t data = at + sizeof(struct weft_piece);
    *word_in(scratch->bytes, data & (SCRATCH_BYTES - 1)) = identity;
    struct weft_piece* piece = (struct weft_piece*)&scratch->bytes[at & (SCRATCH_BYTES - 1)];
    piece->address = code;
    piece->size = sizeof identity;
    piece->kind = kind;
    scratch->used = data + sizeof identity;
    return 1;
}

enum { UNREADABLE = OBJECT_BYTES };

// Where an object's bytes are, in objects->bytes; UNREADABLE. Objects that were made together lie close to one another, and a read
// of a page takes hardly longer than one of eight bytes: if one was read near it in this sample, all of their block is read.
GLOBAL uint32_t object_at(struct objects* objects, uint64_t address, uint32_t size, uint64_t time_ns) {
    if (!objects || size > BLOCK) {
        return UNREADABLE;
    }
    HIDE(size);
    if (size == 0) {
        return UNREADABLE;
    }
    const uint32_t alone = BLOCKS * BLOCK;
    const uint64_t begin = address & ~(BLOCK - 1ull);
    const uint32_t into = address & (BLOCK - 1);
    if (into + size <= BLOCK) {
        const uint32_t number = (begin / BLOCK ^ begin / BLOCK / BLOCKS) & (BLOCKS - 1);
        struct block* block = &objects->block[number];
        const uint32_t at = number * BLOCK;
        if (block->begin != begin || block->time_ns != time_ns) {
            block->begin = begin;
            block->time_ns = time_ns;
            block->is_read = 0;
        } else if (block->is_read || !read_user(&objects->bytes[at], BLOCK, begin)) {
            block->is_read = 1;
            return at + into;
        }
    }
    return read_user(&objects->bytes[alone], size, address) ? UNREADABLE : alone;
}

INLINE uint64_t object_word(struct objects* objects, uint32_t at) {
    return *word_in(objects->bytes, at & (OBJECT_BYTES - 1));
}

NOT_INLINE void tell_text(struct scratch* scratch, uint64_t address, uint32_t size) {
    // At the end of a page, what there is of it.
    if (!add_piece(scratch, address, size)) {
        add_piece(scratch, address, (4096 - (address & 4095)) & (WINDOW - 1));
    }
}

// Reads what tells a text from others that had its address, into scratch->mark: its length and its hash, which is behind that; if it
// has none yet, its first characters, up to the end of a page. A short one is read at once, as far as the page goes. 0: it cannot be
// read. (A mark may be 0: an empty text's hash is.)
GLOBAL uint64_t read_mark(struct scratch* scratch, const struct weft_python* python, uint64_t text, uint64_t is_str) {
    if (!scratch || !python) {
        return 0;
    }
    const uint64_t begin = text + python->text_length;
    const uint32_t here = 4096 - (begin & 4095);
    uint32_t size = TEXT_BLOCK < here ? TEXT_BLOCK : here;
    size = size < 2 * sizeof(uint64_t) ? 2 * sizeof(uint64_t) : size;
    struct objects* texts = &scratch->texts;
    const uint64_t now = scratch->sample.time_ns;
    uint32_t at = object_at(texts, begin, size, now);
    if (at == UNREADABLE) {
        return 0;
    }
    const uint64_t length = object_word(texts, at);
    const uint64_t hash = object_word(texts, at + sizeof length);
    uint64_t mark = weft_mix(length, hash);
    scratch->mark = mark;
    if (hash != ~0ull) {
        return 1;
    }
    uint32_t data_at = python->bytes_data;
    uint64_t bytes = length;
    if (is_str) {
        const uint32_t state_at = python->str_state & (TEXT_BLOCK - 1);
        uint32_t state = object_word(texts, at + state_at);
        if (state_at + sizeof state > size && read_user(&state, sizeof state, begin + state_at)) {
            return 0;
        }
        state >>= python->str_kind_shift & 31;
        data_at = state & 16 ? python->str_ascii_data : python->str_compact_data;
        bytes *= state & 7;
    }
    const uint64_t data = begin + data_at;
    const uint64_t rest = (4096 - (data & 4095)) / sizeof(uint64_t);
    const uint64_t words = bytes / sizeof(uint64_t) + (bytes % sizeof(uint64_t) != 0);  // its last one is its own
    const uint32_t count = words < rest ? words < WEFT_MARK ? words : WEFT_MARK : rest < WEFT_MARK ? rest : WEFT_MARK;
    at += data_at;
    if (count != 0 && data_at + count * sizeof(uint64_t) > size) {
        at = object_at(texts, data, count * sizeof(uint64_t), now);
        if (at == UNREADABLE) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < WEFT_MARK && i < count; ++i) {
        mark = weft_mix(mark, object_word(texts, at + i * sizeof(uint64_t)));
    }
    scratch->mark = mark;
    return 1;
}

INLINE uint64_t code_word(struct scratch* scratch, uint32_t offset) {
    return offset == WEFT_ABSENT ? 0 : object_word(&scratch->code, scratch->code_at + offset);
}

// A number for a code object that no other one at its address has had, from its bytes in scratch->code (at code_at): that of native/python/code_identity.cpp.
// 0: its texts are not resident. Then it was not made just now, and may be looked at later.
GLOBAL uint64_t identity_of(struct scratch* scratch, const struct weft_python* python) {
    if (!scratch || !python) {
        return 0;
    }
    const uint32_t version = code_word(scratch, python->code_version);
    const uint32_t first_line = code_word(scratch, python->code_firstlineno);
    uint64_t identity = weft_mix((uint64_t)version << 32 | first_line, 0);
    for (uint32_t i = 0; i < WEFT_TEXTS; ++i) {
        const uint64_t text = code_word(scratch, python->code_text[i]);
        identity = weft_mix(identity, text);
        if (version || !text) {
            continue;
        }
        // Code objects of one file name the same text, and one may have it twice; a hostile one as a str and as bytes.
        const uint64_t is_str = i != WEFT_LINE_TABLE && python->str_state != WEFT_ABSENT;
        const uint64_t key = text | is_str << 63;
        struct marked* marked = &scratch->marked[(text >> 4 ^ text >> 8) & (TEXTS_MARKED - 1)];
        if (marked->text != key || marked->time_ns != scratch->sample.time_ns) {
            if (!read_mark(scratch, python, text, is_str)) {
                return 0;
            }
            marked->text = key;
            marked->mark = scratch->mark;
            marked->time_ns = scratch->sample.time_ns;
        }
        identity = weft_mix(identity, marked->mark);
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
    scratch->code_at = object_at(&scratch->code, code + python->code_begin, size, scratch->sample.time_ns);
    if (scratch->code_at == UNREADABLE) {
        return 0;
    }
    const uint64_t identity = identity_of(scratch, python);
    // A child that is sampled by what is known of its parent has the parent's generation.
    const uint64_t teller = (uint64_t)scratch->sample.pid << 16 | scratch->generation;
    const uint64_t told = weft_mix(weft_mix(identity, code), teller);
    uint64_t* known = &walk->told->codes[told & (CODES_TOLD - 1)];
    const int is_new = *known != told && scratch->used <= SCRATCH_BYTES / 2;  // the rest is for frames
    if (!identity || !add_code(scratch, code, identity, is_new ? WEFT_NEW_CODE : WEFT_CODE)) {
        return 0;
    }
    seen->code = code;
    seen->time_ns = scratch->sample.time_ns;
    if (!is_new) {
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
