// Why a stack is incomplete, or a sample missing. Every failure on the way of a sample is one of these, and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

// The name is what a capture and every output says.
#define WEFT_LOSSES(X)                                                                                              \
    X(kNone, "none")                                                                                                \
    /* of a stack: what was read is kept, the rest is missing */                                                    \
    X(kUnreadable, "unreadable")  /* memory that a pointer named could not be read */                               \
    X(kCycle, "cycle")            /* the chain of frames runs in a circle */                                        \
    X(kDepth, "depth")            /* deeper than weft walks, or more to read than it reads */                       \
    X(kNotAFrame, "not-a-frame")  /* the chain led to something that is no frame */                                 \
    X(kNotCode, "not-code")       /* a frame's code is no code object */                                            \
    X(kCodeGone, "code-gone")     /* a frame's code object was freed before it could be read */                     \
    X(kBetween, "between-frames") /* caught while the interpreter was linking frames, again and again */            \
    X(kInterpreterUnproven, "interpreter-unproven") /* frames of a subinterpreter that another thread may run */    \
    X(kNoUnwind, "no-unwind-info")                  /* a native stack: nothing tells how this code was called */    \
    X(kFramePointer,                                                                                                \
      "frame-pointer") /* a native stack: a step by frame pointer, and no anchor behind it to confirm it */         \
    X(kNoRegisters, "no-registers")      /* a native stack: where the thread stands is not known */                 \
    X(kSeamOpen, "seam-open")            /* native frames, and Python frames that could not be laid into them */    \
    X(kNoThreadState, "no-thread-state") /* the interpreter's record of the thread changed while it was read */     \
    /* of a sample: it is missing */                                                                                \
    X(kNoRuntime, "runtime-not-found") /* Python, or what may become it, is not found yet */                        \
    X(kLate, "late")                   /* the sampler came too late for its tick */                                 \
    X(kSpared, "spared")               /* its stack takes so long to read that it is read less often */             \
    X(kTorn, "torn")                   /* the thread may have moved while its stack was read */                     \
    X(kExited, "exited")               /* the thread or the process ended in mid-sample */                          \
    X(kDenied, "denied")               /* the kernel forbade it */                                                  \
    X(kTraced, "traced")               /* another tracer (gdb, strace) holds the thread */                          \
    X(kBehind, "recorder-behind")      /* batches were not written as fast as they came */                          \
    X(kGilMoved, "gil-moved")          /* mode gil: the GIL changed hands before the stop */                        \
    X(kNoRoom, "no-room")              /* collector bpf: the kernel has no room for another process */              \
    X(kRingFull, "ring-full") /* collector bpf: the ring had no room for the stack of a thread that left its CPU */ \
    X(kUnseen, "unseen")      /* time that a thread spent between samples, never caught */

enum class Loss : std::uint8_t {
#define WEFT_LOSS(id, name) id,
    WEFT_LOSSES(WEFT_LOSS)
#undef WEFT_LOSS
};

inline constexpr std::string_view kLossNames[] = {
#define WEFT_LOSS(id, name) name,
    WEFT_LOSSES(WEFT_LOSS)
#undef WEFT_LOSS
};

inline constexpr std::size_t kLossCount = sizeof(kLossNames) / sizeof(kLossNames[0]);

}  // namespace weft
