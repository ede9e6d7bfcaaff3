// Weaving: the Python frames of a thread are laid into its native ones.
//
// An activation is a native frame that runs the interpreter's eval loop, a segment the Python frames that it runs. Which
// activation a segment belongs to is told by its anchor (python/frames.h): the interpreter has left it in the stack frame
// of that activation. Names and counts of functions are not needed for it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "python/frames.h"
#include "unwind/unwinder.h"

namespace weft {

// How it was decided which activation a segment belongs to.
enum class Proof : std::uint8_t {
    kNone,     // not a seam
    kProven,   // the segment's anchor lies in this native frame and in no other, where this interpreter keeps it
    kCounted,  // only the number of activations and segments agree
    kOpen,     // neither: both stacks are kept
};
inline constexpr std::size_t kProofs = 4;

struct WovenFrame {
    enum class Kind : std::uint8_t {
        kPython,  // index: of PythonStack::frames
        kNative,  // index: of NativeStack::frames; with a proof if it is an activation
        kMarker,  // index: the Loss because of which frames are missing here, or their order is not known
    };
    Kind kind = Kind::kNative;
    Proof proof = Proof::kNone;
    std::uint32_t index = 0;

    bool operator==(const WovenFrame&) const = default;
};

struct WovenStack {
    std::vector<WovenFrame> frames;              // innermost first
    std::array<std::uint64_t, kProofs> seams{};  // how many of each proof
    std::uint64_t gaps = 0;                      // in the native stack, but for what is missing at its end
    std::uint64_t unconfirmed = 0;               // steps by frame pointer, and no proven seam behind them
    bool lacks_python = false;  // native frames tell that there are Python frames, and none of them was found
};

// Weaves the stacks of one process, and learns where its interpreter keeps its anchors.
class Weaver {
   public:
    explicit Weaver(const Layout& layout);

    // `words`: the copy of the stack that `native` was unwound with.
    // Where code cannot be unwound, the native stack ends; behind the activation whose anchor comes next, it goes on. So it does
    // where a step by frame pointer has led past that activation.
    void weave(const PythonStack& python, NativeStack& native, CodeMap& code, StackCopy& words, WovenStack& woven);

   private:
    // Where an activation keeps the pointer to its frame, up to 3.10.
    struct Slot {
        bool in_register = false;
        std::uint32_t preserved = 0;  // index of kPreserved
        std::int32_t offset = 0;      // from the CFA
    };
    struct Seam {
        std::uint32_t native = 0;  // index of the activation; or of its caller, where it lies in a gap
        Proof proof = Proof::kNone;
        Loss gap = Loss::kNone;  // why there are no native frames before `native`
    };

    void find_activations(const NativeStack& native, std::uint32_t from);
    void pair_by_address(NativeStack& native, std::uint32_t next);
    bool is_at(Address anchor, const NativeFrame& frame) const;
    bool cross_gap(Address anchor, NativeStack& native, CodeMap& code, StackCopy& words);
    // False: no activation holds any of the Python frames, which are none of this stack's.
    bool pair_by_value(const PythonStack& python, const NativeStack& native, StackCopy& words);
    void pair_by_count();
    void find_segments(const PythonStack& python, const NativeStack& native, StackCopy& words);
    bool is_learned(Address distance, const CodeMap::Place& place);
    bool is_held(Address pointer, const NativeFrame& frame, StackCopy& words);
    bool lacks_frames(const PythonStack& python, const NativeStack& native);
    Address& site_of(const NativeFrame& frame);
    void lay(std::size_t python_frames, const NativeStack& native, WovenStack& woven) const;

    const Layout layout_;
    bool anchors_are_addresses_;
    // Distances of anchors from the CFA of their activation, and how often each was seen; the likeliest comes first.
    struct Distance {
        Address bytes = 0;
        std::uint64_t seen = 0;
        // In an activation that has called something. Whoever numbers modules keeps their tables (CodeBook), maps change.
        CodeMap::Place place;
    };
    std::vector<Distance> distances_;
    // By their hash, the last places in activations of proven seams whose code no symbol tells to be the eval loop's.
    std::array<Address, 1024> sites_{};
    std::optional<Slot> slot_;
    std::vector<Segment> segments_;           // of the sample at hand
    std::vector<Segment> found_;              // kept for its memory
    std::vector<Seam> seams_;                 // of the sample at hand: of its first segments
    std::vector<std::uint32_t> activations_;  // native frames whose code is known to be the eval loop's
};

}  // namespace weft
