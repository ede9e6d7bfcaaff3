// The layout: where one CPython build keeps the fields that weft reads. Derived in Python (src/weft/cpython/layout.py),
// proven on the target (check.py), then handed to the walker, which knows no version and no number of its own.
#pragma once

#include <cstdint>

namespace weft {

inline constexpr std::uint32_t kAbsent = 0xffffffff;  // this version has no such field

// How a frame says where it stands in its code.
enum class Instruction : std::uint32_t {
    kByteIndex = 0,  // int f_lasti counts bytes (2.7-3.9); -1: not started
    kUnitIndex = 1,  // int f_lasti counts 2-byte code units (3.10); -1: not started
    kPointer = 2,    // a pointer into the bytecode (3.11 on)
};

// Every field, one name for C++ and Python. Offsets and sizes are in bytes.
#define WEFT_LAYOUT_FIELDS(X)                                                               \
    X(version)       /* PY_VERSION_HEX */                                                   \
    X(pointer_size)  /* 4 or 8 */                                                           \
    X(free_threaded) /* 1 in builds without a GIL */                                        \
    /* interpreter state */                                                                 \
    X(interp_next)                                                                          \
    X(interp_id) /* absent in 2.7, 3.6 */                                                   \
    X(interp_threads_head)                                                                  \
    X(interp_gil)             /* pointer to the GIL, 3.12 on */                             \
    X(interp_code_generation) /* counts destroyed code objects, 3.14 on */                  \
    /* the GIL */                                                                           \
    X(gil_last_holder) /* 3.12 on; before, RuntimeAddresses.current_thread */               \
    X(gil_locked)      /* 3.7 on */                                                         \
    X(gil_size)                                                                             \
    /* thread state */                                                                      \
    X(thread_size)                                                                          \
    X(thread_next)                                                                          \
    X(thread_interp)                                                                        \
    X(thread_frame)     /* the frame; in 3.11 and 3.12 the cframe */                        \
    X(thread_cframe)    /* 3.10 to 3.12 */                                                  \
    X(cframe_frame)     /* the frame in a cframe, 3.11 and 3.12 */                          \
    X(cframe_previous)  /* the cframe of the activation before, 3.11 and 3.12 */            \
    X(thread_pthread)   /* tstate->thread_id, the pthread_self of its thread */             \
    X(thread_native_id) /* 3.11 on; in the target's pid namespace */                        \
    X(thread_holds_gil) /* 3.14 on */                                                       \
    X(thread_chunk)     /* the newest data stack chunk, 3.11 on */                          \
    X(thread_chunk_top)                                                                     \
    /* data stack chunk */                                                                  \
    X(chunk_previous)                                                                       \
    X(chunk_size)                                                                           \
    X(chunk_top) /* in pointers from chunk_data; of chunks but the newest */                \
    X(chunk_data)                                                                           \
    /* frame */                                                                             \
    X(frame_size) /* bytes to read of a frame to have every field below */                  \
    X(frame_previous)                                                                       \
    X(frame_code)                                                                           \
    X(frame_code_tags) /* low bits of frame_code that are not address (3.14 on: 3) */       \
    X(frame_instruction)                                                                    \
    X(instruction_kind) /* enum Instruction */                                              \
    X(frame_owner)      /* 3.11 on */                                                       \
    X(frame_owner_shim) /* owners from this one on are not Python frames: 3 from 3.12 on */ \
    X(frame_is_entry)   /* 3.11: nonzero in the first frame that an activation runs */      \
    X(frame_tlbc_index) /* free-threaded 3.14 on */                                         \
    X(frame_localsplus)                                                                     \
    /* code object */                                                                       \
    X(code_filename)                                                                        \
    X(code_name)                                                                            \
    X(code_qualname) /* 3.11 on */                                                          \
    X(code_firstlineno)                                                                     \
    X(code_linetable)                                                                       \
    X(code_adaptive)       /* the bytecode, 3.11 on */                                      \
    X(code_firsttraceable) /* 3.11 on */                                                    \
    X(code_version)        /* 3.12 on; no two have one, but 0 */                            \
    X(code_tlbc)           /* free-threaded 3.14 on */                                      \
    /* objects */                                                                           \
    X(object_type)                                                                          \
    X(type_name)                                                                            \
    X(bytes_length)                                                                         \
    X(bytes_data)                                                                           \
    X(names_are_bytes) /* 1: names are str of 2.7, laid out as bytes */                     \
    X(str_length)                                                                           \
    X(str_state)                                                                            \
    X(str_kind_shift)   /* bit of state where kind (3 bits), compact, ascii begin */        \
    X(str_ascii_data)   /* characters of a compact ASCII string */                          \
    X(str_compact_data) /* characters of another compact string */                          \
    X(str_data_pointer) /* pointer to the characters of one that is not compact */

struct Layout {
#define WEFT_FIELD(name) std::uint32_t name = kAbsent;
    WEFT_LAYOUT_FIELDS(WEFT_FIELD)
#undef WEFT_FIELD
};

// Where one process keeps the roots; 0 where there is none.
struct RuntimeAddresses {
    std::uint64_t interpreters_head = 0;  // address of the pointer to the first interpreter
    std::uint64_t current_thread = 0;     // address of the pointer to the thread state that holds the GIL, up to 3.11
    std::uint64_t gil = 0;                // address of the one GIL, up to 3.11 where known
    // Where a thread keeps the address of the thread state that it has attached, from its thread pointer; 3.12 on, where known.
    std::int64_t current_state = 0;
};

}  // namespace weft
