// The walk along one thread state's chain of Python frames.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/memory.h"
#include "python/code.h"
#include "python/layout.h"
#include "python/loss.h"
#include "python/runtime.h"

namespace weft {

struct PythonFrame {
    std::uint32_t code = 0;        // CodeDefinition::id
    std::int32_t instruction = 0;  // byte offset in the bytecode; negative: not started
    bool incomplete = false;       // pushed, not started: to be shown at the code's first line

    bool operator==(const PythonFrame&) const = default;
};

// The frames that one activation of the eval loop runs, and the struct that it keeps on the C stack for them: an entry
// frame (3.12 on), a cframe (3.11), or the frame itself, to which the activation keeps a pointer (up to 3.10).
struct Segment {
    Address anchor = 0;     // 0: it is not known
    std::uint32_t end = 0;  // of its frames in PythonStack::frames; they begin where those of the segment before end
};

// The frames of one thread state, innermost first. With a loss, the frames that were reached are there.
struct PythonStack {
    std::vector<PythonFrame> frames;
    // Of each frame, the one that has called it, or what stands between the two; where entry frames are anchors.
    std::vector<Address> callers;
    std::vector<Segment> segments;  // innermost first; frames behind the last one were cut off from theirs by a loss
    Loss loss = Loss::kNone;
    bool unproven = false;  // it is not certain that all of it is this thread's
    // Where the interpreter left its innermost anchor on the C stack; of two thread states of one thread, the one with
    // the lower address is called by the other. 0: this version leaves none.
    Address anchor = 0;

    // Goes on with the frames of another thread state, which has called this one's.
    void append(const PythonStack& outer) {
        const auto before = static_cast<std::uint32_t>(frames.size());
        for (const Segment& segment : outer.segments) {
            segments.push_back({segment.anchor, before + segment.end});
        }
        frames.insert(frames.end(), outer.frames.begin(), outer.frames.end());
        callers.insert(callers.end(), outer.callers.begin(), outer.callers.end());
        loss = outer.loss != Loss::kNone ? outer.loss : loss;
        unproven = unproven || outer.unproven;
    }

    void clear() {
        frames.clear();
        callers.clear();
        segments.clear();
        loss = Loss::kNone;
        unproven = false;
        anchor = 0;
    }
};

class FrameWalker {
   public:
    static constexpr std::size_t kMaxFrames = 1 << 20;

    explicit FrameWalker(const Runtime& runtime);

    // Walks the frames of `state` into `stack`, which is emptied first. `memory` has the thread's own; what it shares with others,
    // its code objects, is read in `objects`.
    void walk(Memory& memory, Memory& objects, const ThreadState& state, CodeTable& codes, PythonStack& stack);

   private:
    struct RawFrame {
        Address previous = 0;
        Address code = 0;
        Address instruction = 0;
        std::uint8_t owner = 0;
        bool ends_whole = true;  // a chain that ends behind this frame is whole
        bool is_entry = false;   // the first frame that its activation runs
        std::int32_t tlbc_index = 0;
    };

    // The data stack chunk that the walk is in, read in one piece.
    struct Chunk {
        Address previous = 0;
        Address begin = 0;
        Address end = 0;  // of what is in use
        Address mapped_end = 0;
        std::size_t held = 0;          // of its bytes, from its begin on
        std::vector<std::byte> bytes;  // has room for more
    };

    void visit(Memory& objects, Address address, const RawFrame& raw, CodeTable& codes, PythonStack& stack);
    void anchor_by_cframes(Memory& memory, Address cframe, PythonStack& stack);
    void end_segment(Address anchor, const RawFrame& last, PythonStack& stack);
    bool is_newest_linked(Memory& memory, Address innermost, const PythonStack& stack);
    Loss read_thread(Memory& memory, const ThreadState& state, PythonStack& stack, Address& frame);
    Loss load_chunk(Memory& memory, Address chunk, Address top);
    bool enter_chunk_of(Memory& memory, Address frame);
    Loss read_frame(Memory& memory, Address address, RawFrame& frame);
    Loss add_frame(Memory& objects, const RawFrame& raw, CodeTable& codes, PythonStack& stack);
    Loss instruction_offset(Memory& objects, const RawFrame& raw, std::int32_t& offset);

    const Runtime& runtime_;
    const Layout& layout_;
    Chunk chunk_;
    Address thread_ = 0;            // the thread state
    bool begins_ = true;            // a segment begins with the next frame
    bool called_directly_ = false;  // the frame before runs in the same activation
    std::vector<Address> firsts_;   // the innermost frame of each segment, 3.11
    Address newest_caller_ = 0;  // what the newest activation's own frames are linked to: the frame that has called it
};

}  // namespace weft
