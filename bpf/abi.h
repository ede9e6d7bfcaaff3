// What the BPF program and the C++ side share: how a process is told to the kernel, and what the kernel tells of a sample.
#pragma once

#ifdef __bpf__
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long long uint64_t;
typedef long long int64_t;
#else
#include <stdint.h>
#endif

enum {
    WEFT_EVAL_LOOPS = 4,
    WEFT_MAPPINGS = 1024,    // executable mappings of a process
    WEFT_PAGES = 1 << 19,    // of code that has unwind tables, 4 KiB each
    WEFT_ROWS = 1 << 25,     // of all tables; libpython has 70,000, libtorch 2,300,000
    WEFT_CHUNK = 1 << 19,    // of them that lie in one map; as many are made as it takes
    WEFT_OVERLAP = 1 << 13,  // rows of the next chunk that one has, too: those of a page lie in one
    WEFT_RULES = 1 << 16,
    WEFT_PRESERVED = 6,    // rbx, rbp, r12 to r15
    WEFT_REGISTERS = 17,   // DWARF's numbers; the last is the return address
    WEFT_STACK = 1 << 17,  // bytes
    WEFT_CFA = 17,         // as the base of a rule: the CFA that has just been found
};

// A step of the native walk: unwind/rule.h, packed.
enum weft_cfa { WEFT_CFA_NONE, WEFT_CFA_END, WEFT_CFA_REGISTER, WEFT_CFA_DEREF, WEFT_CFA_PLT };
enum weft_where { WEFT_SAME, WEFT_IN_MEMORY, WEFT_IN_REGISTER, WEFT_LOST };

struct weft_saved {
    int32_t offset;
    uint16_t where;
    uint16_t base;  // a register, or WEFT_CFA
};

// Most rules have one form: the CFA is rsp or rbp and an offset, rbp is as it was or saved near the CFA, the return address is
// below the CFA. They are applied from one number:
//   bit 63   it is of this form           bits 32 to 47  where rbp is saved, from the CFA; 0: it is as it was
//   bit 48   the CFA is told by rbp       bits 0 to 31   what is added for the CFA
#define WEFT_FAST (1ull << 63)
#define WEFT_FAST_BY_RBP (1ull << 48)

struct weft_rule {
    uint64_t fast;  // 0: it is of another form
    uint8_t cfa;
    uint8_t base;
    uint8_t signal;
    uint8_t unused;
    int32_t offset;
    int32_t addend;
    uint32_t unused_too;
    struct weft_saved saved[WEFT_PRESERVED + 1];  // as kPreserved in unwind/rule.h, and the return address
};

// Where an unwind table lies in the maps `pages`, `rows` and `rules`.
struct weft_table {
    uint32_t first_page;  // of its code, in units of 4 KiB of its own addresses
    uint32_t pages;
    uint32_t pages_at;  // the number of its first row, for each page; one more, for the end
    uint32_t rows_at;
    uint32_t rules_at;
    uint32_t unused;
};

struct weft_mapping {
    uint64_t begin;
    uint64_t end;
    uint64_t bias;
    uint32_t table;
    uint32_t unused;
};

// One number of several, another one for others.
static inline __attribute__((always_inline, unused)) uint64_t weft_mix(uint64_t so_far, uint64_t more) {
    const uint64_t mixed = (so_far ^ more) * 0x9e3779b97f4a7c15ull;
    return mixed ^ mixed >> 32;
}

// The texts that a code object names; of each the length and, behind it, the hash tell it from others that had its address.
#define WEFT_MARK 32         // words that are compared of one that has no hash
#define WEFT_CODE_BYTES 512  // of a code object, that are read of it at most
enum weft_text { WEFT_NAME, WEFT_QUALNAME, WEFT_FILENAME, WEFT_LINE_TABLE, WEFT_TEXTS };

// What the walk of Python frames needs of a layout (native/python/layout.h). Offsets in bytes; WEFT_ABSENT: no such field.
#define WEFT_ABSENT 0xffffffffu
#define WEFT_MOST_PYTHON 2048  // frames of Python, and cframes of a thread state, that are told of a sample
struct weft_python {
    uint64_t interpreters_head;  // address of the pointer to the first interpreter; 0: there is no Python
    int64_t
        current_state;  // where a thread keeps the address of its thread state, from its thread pointer; 0: not known
    uint32_t main_follows;  // the pointer to the main interpreter is behind that to the first
    uint32_t interp_next;
    uint32_t interp_threads_head;
    uint32_t thread_next;
    uint32_t thread_pthread;
    uint32_t thread_size;  // bytes of a thread state that are told
    uint32_t thread_frame;
    uint32_t cframe_frame;
    uint32_t cframe_previous;
    uint32_t cframe_size;  // bytes of a cframe that are told, from cframe_frame on
    uint32_t cframes;      // how many are told of a thread state
    uint32_t thread_cframe;
    uint32_t frame_previous;
    uint32_t frame_size;
    uint32_t frame_owner;       // a byte of the frame; WEFT_ABSENT: all are Python frames
    uint32_t frame_owner_shim;  // of this and above it, frames run no code object
    // Where it stands who holds the GIL: in its own struct, which an interpreter has a pointer to, or (up to 3.11) in a variable.
    uint64_t current_thread;  // address of the pointer to the thread state that holds it; 0: none is known
    uint32_t thread_interp;
    uint32_t interp_gil;
    uint32_t gil_size;
    uint32_t frame_code;
    uint32_t frame_code_tags;
    // Code objects: the bytes that are told of one, and fields within them.
    uint32_t code_begin;
    uint32_t code_size;
    uint32_t code_version;
    uint32_t code_firstlineno;
    uint32_t code_text[WEFT_TEXTS];
    // Texts: where they have their length; from there on, where a str has its state and its characters, and bytes have theirs.
    uint32_t text_length;
    uint32_t str_state;  // WEFT_ABSENT: names are bytes
    uint32_t str_kind_shift;
    uint32_t str_ascii_data;
    uint32_t str_compact_data;
    uint32_t bytes_data;
};

// A thread's state in the main interpreter, and the first of that interpreter's list when it was looked for; 0: it was not.
struct weft_state {
    uint64_t state;
    uint64_t first;
};

struct weft_range {
    uint64_t begin;
    uint64_t end;
};

struct weft_process {
    uint64_t told_ns;  // since when it is known
    uint32_t mappings;
    uint16_t generation;  // another one whenever anything of it changes
    // Anchors are pointers that activations keep, in registers or on the stack: the registers that functions preserve are told of
    // each activation, and of the stack what the walk reads.
    uint16_t anchors_are_values;
    uint32_t switches;  // stacks of threads that leave their CPU are wanted, too
    uint32_t eval_loops;
    uint32_t sampled;  // 0: it is not
    uint32_t follows;  // its children are sampled, too; of the others: some have such children
    struct weft_range eval_loop[WEFT_EVAL_LOOPS];  // their code
    struct weft_python python;
    struct weft_mapping mapping[WEFT_MAPPINGS];  // by their begin; they do not overlap
};

// Why a walk ended.
enum weft_end {
    WEFT_END_WHOLE,        // with the outermost frame
    WEFT_END_DEPTH,        // there was no room for more
    WEFT_END_UNREADABLE,   // a page is not there: not mapped, or not resident
    WEFT_END_NO_RULE,      // the code has no rule that the kernel can apply
    WEFT_END_NO_REGISTER,  // the code's rule asks for a register that was not followed
    WEFT_END_NO_MODULE,    // the code is in no mapping that was told, or in one whose table is not there yet
    WEFT_END_NO_STATE,     // the thread has no thread state
};

// A sample tells pieces: the native frames, innermost first, and the memory that was read, as it was at the sample.
enum weft_kind {
    WEFT_MEMORY,    // its bytes follow, up to a multiple of 8
    WEFT_FRAME,     // weft_frame follows, of which `size` bytes are told
    WEFT_CALLER,    // the same, of one whose pc is a return address
    WEFT_KERNEL,    // where the thread is in the kernel: addresses follow, innermost first
    WEFT_CODE,      // the code object of a Python frame: a number follows that no other one at its address has had
    WEFT_NEW_CODE,  // the same; and as pieces of memory, the object and its texts, which are told once
};

struct weft_piece {
    uint64_t address;  // of the memory; of a frame, its pc
    uint32_t size;
    uint32_t kind;  // enum weft_kind
};

struct weft_frame {
    uint64_t stack_pointer;
    uint64_t cfa;  // 0: not known, and this is the last frame
    uint64_t preserved[WEFT_PRESERVED];
};
#define WEFT_SHORT_FRAME 16  // bytes of it, without the registers

// How a thread's time has passed since began_ns, up to its last switch, to or from a CPU. The sum of all four is all of it.
struct weft_times {
    uint64_t began_ns;
    uint64_t ran_ns;
    uint64_t ready_ns;    // waiting for a CPU
    uint64_t blocked_ns;  // waiting for anything else
    uint64_t lost_ns;     // of stays off the CPU whose stack found no room in the ring
    uint32_t lost;        // how many
    uint32_t untold;  // stays off the CPU whose stack was not taken: those of a thread that switches too often for that
};

// How often something happens: in this stretch of time, and in the one before it.
struct weft_rate {
    uint32_t stretch;
    uint32_t before;
    uint32_t now;
    uint32_t unused;
};

// What the kernel's part remembers of a thread.
enum weft_place { WEFT_SOMEWHERE, WEFT_ON_CPU, WEFT_OFF_CPU };
struct weft_thread {
    struct weft_times times;
    uint64_t since_ns;  // of its last switch
    uint64_t woken_ns;  // when it was woken; 0: not since it came to a CPU
    uint64_t cpu_ns;    // its CPU time as it left last, or as we came (task_struct.se.sum_exec_runtime)
    uint32_t place;     // enum weft_place
    uint32_t why;       // off the CPU: the state that it is blocked in (TASK_*); 0: none, it could run on
    uint32_t every;     // off the CPU: see weft_sample.every; 0: its stack was not told
    uint32_t missed;    // off the CPU: its stack found no room in the ring
    struct weft_rate rate;
};

// Samples of allocations fall on one byte of so many, by chance: points of a Poisson process over all bytes that are asked for.
#define WEFT_BYTES_A_SAMPLE (1 << 19)
// Walks at allocations that can be under way on a CPU: the program can be preempted.
#define WEFT_PLACES 2
// No request that is larger can be met: addresses have 47 bits.
#define WEFT_MOST_ASKED_FOR (1ull << 46)

// How a function is asked for memory: where its argument with the size is, in the calling convention's order.
enum weft_request {
    WEFT_ASKS_FIRST,    // malloc(size), valloc(size)
    WEFT_ASKS_PRODUCT,  // calloc(count, size)
    WEFT_ASKS_AGAIN,    // realloc(old, size)
    WEFT_ASKS_ALIGNED,  // aligned_alloc(alignment, size)
    WEFT_ASKS_THIRD,    // posix_memalign(where, alignment, size)
};
// What a probe is told of the function that it is at, as one number: from bit 0 on enum weft_request; how many bytes before
// it, and (from it on) after it, the allocator's code has; calls from there are its own, and not counted.
#define WEFT_FORWARDS 8  // with no old block, or a small alignment, it jumps to malloc, which counts it
#define WEFT_BEFORE_AT 4
#define WEFT_AFTER_AT 34
#define WEFT_SPAN_BITS 30
#define WEFT_SMALL_ALIGNMENT 16  // MALLOC_ALIGNMENT of glibc (sysdeps/generic/malloc-alignment.h)

// On each CPU.
struct weft_allocations {
    int64_t until_next;  // bytes up to the next sample
    uint64_t calls;      // all of them, sampled or not
    uint64_t bytes;      // that these have asked for
    uint64_t refused;    // calls that ask for more than there can be
};

// Bytes in the ring above which user mode is woken: a quarter of the least ring there is (collect/bpf/collector.py).
#define WEFT_RING_FILLS (2 << 20)

// The records of the ring, by their first word.
enum weft_record {
    WEFT_TICK,        // a sample of a thread that runs
    WEFT_OUT,         // one of a thread that is switched out
    WEFT_IN,          // a thread is switched in: weft_return
    WEFT_END,         // it has ended: weft_return, of which the times are told
    WEFT_ALLOCATION,  // a sample of a thread that asks for memory
};

// A sample. If the native walk comes to code that the kernel cannot unwind, or to memory that it cannot read, the thread's stack is among
// the pieces, from its stack pointer on, as far as WEFT_STACK: it is unwound in user mode then. Behind it: `bytes` of pieces.
struct weft_sample {
    uint32_t record;
    uint32_t pid;
    uint32_t tid;
    uint32_t every;    // WEFT_OUT: it was taken by chance, of one in so many
    uint64_t time_ns;  // of CLOCK_MONOTONIC
    char name[16];     // of the thread, as prctl(PR_SET_NAME) has set it
    uint64_t thread_pointer;
    uint64_t thread_state;  // in the main interpreter; 0: none was found
    uint64_t registers[WEFT_REGISTERS];
    uint32_t in_kernel;
    uint32_t native_frames;
    uint32_t native_end;  // enum weft_end
    uint32_t python_end;
    uint32_t python_frames;
    uint32_t bytes;
    uint32_t cpu;
    uint32_t is_kernel_task;  // it has no user mode
    uint64_t walk_ns;
    // The thread's account (struct sched_info, struct sched_entity): what it has run, which lags behind by up to a scheduler
    // tick; how long it has waited for a CPU; how often it was switched in. Where switches are told, the first is the time that
    // it was on CPUs, without a lag.
    uint64_t cpu_ns;
    uint64_t delay_ns;
    uint64_t switches;
    uint64_t account_ns;  // where switches are told: since when the first counts
    int64_t system_call;  // WEFT_OUT: that it is in; -1: none
    uint32_t why;         // WEFT_OUT: weft_thread.why
    uint32_t is_alone;    // the process has one Python interpreter
    uint64_t asked_for;   // WEFT_ALLOCATION: bytes
};

// A thread is back on a CPU.
struct weft_return {
    uint32_t record;
    uint32_t pid;  // WEFT_END: of its process
    uint32_t tid;
    uint32_t every;  // as in the sample with which it left; 0: there is none
    uint64_t left_ns;
    uint64_t woken_ns;  // from when on it waited for a CPU
    uint64_t time_ns;
    struct weft_times times;
};
