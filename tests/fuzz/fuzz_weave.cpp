// libFuzzer over the weaver: the input tells how stacks are built, and what of them is damaged.
//
// Whole stacks must come out as they were built, with each seam proven. Of damaged ones each frame must come out once, in
// its order, and what is called proven must hold. test_fuzz_weave.py builds and runs this.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weave/weave.h"

namespace {

using namespace weft;

constexpr Address kStack = 0x7ffc00000000;
constexpr Address kHeap = 0x550000000000;  // of Python frames
constexpr Address kCode = 0x7f0000000000;
constexpr Address kCodeSize = 1 << 16;
constexpr std::uint32_t kOwner = 24;  // of fields in an entry frame
constexpr std::uint32_t kPrevious = 16;
constexpr std::uint64_t kShim = 3;

void check(bool holds) {
    if (!holds) {
        std::abort();
    }
}

// The input, byte by byte; zeros behind its end.
class Input {
   public:
    Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

    bool at_end() const { return rest_.empty(); }
    bool chance(unsigned one_of) { return below(one_of) == 1; }
    // A number below `limit`, which is at most 1 << 16.
    std::size_t below(std::size_t limit) {
        std::size_t value = byte();
        return (limit > 256 ? value << 8 | byte() : value) % limit;
    }
    std::uint64_t word() {
        std::uint64_t value = 0;
        for (int i = 0; i < 8; ++i) {
            value = value << 8 | byte();
        }
        return value;
    }

   private:
    std::uint8_t byte() {
        if (rest_.empty()) {
            return 0;
        }
        const std::uint8_t first = rest_.front();
        rest_ = rest_.subspan(1);
        return first;
    }

    std::span<const std::uint8_t> rest_;
};

// The C stack; nothing else is mapped.
class Words final : public Memory {
   public:
    std::vector<std::uint64_t> words;

    void set(Address address, std::uint64_t value) {
        const std::size_t index = (address - kStack) / 8;
        if (address >= kStack && index < words.size()) {
            words[index] = value;
        }
    }
    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override {
        const Address at = address - kStack;
        const std::size_t end = words.size() * 8;
        if (at > end || size > end - at) {
            return ReadResult::kUnmapped;
        }
        std::memcpy(to, reinterpret_cast<const std::byte*>(words.data()) + at, size);
        return ReadResult::kOk;
    }
};

// A section of CFI by which each function's CFA is its stack pointer + 32.
CodeMap code_map() {
    std::vector<unsigned char> bytes = {16, 0, 0, 0, 255, 255, 255, 255, 1, 0, 1, 0x78, 16, 0x0c, 7, 32, 0x90, 1, 0, 0,
                                        20, 0, 0, 0, 0,   0,   0,   0,   0, 0, 0, 0,    0,  0,    0, 0,  0,    0, 0, 0};
    bytes.resize(44);
    bytes[38] = 1;  // 1 << 16 bytes of code
    const CfiSection section{std::as_bytes(std::span(bytes)), 0, false};
    CodeMap code;
    code.add(kCode, kCode + kCodeSize, kCode, 1,
             std::make_shared<const UnwindTable>(UnwindTable::build({&section, 1})));
    check(code.find(kCode).rule->offset == 32);
    return code;
}

// How an interpreter leaves its anchors.
struct Version {
    explicit Version(Input& input) : kind(static_cast<Kind>(input.below(3))) {
        distance = 8 * (1 + input.below(8));
        slot = input.chance(2) ? 0 : static_cast<std::int32_t>(8 * (2 + input.below(63)));
        preserved = input.below(kPreserved.size());
        if (kind == Kind::kEntryFrames) {
            layout.frame_owner = kOwner;
            layout.frame_previous = kPrevious;
            layout.frame_owner_shim = kShim;
            distance += 32;  // the entry frame
        } else if (kind == Kind::kCframes) {
            layout.frame_is_entry = 0;
        }
    }
    enum class Kind { kEntryFrames, kCframes, kPointers };
    Kind kind;
    Layout layout;
    Address distance = 0;   // of an anchor from its activation's CFA
    std::int32_t slot = 0;  // where an activation keeps its pointer, below its CFA; 0: in a register
    std::size_t preserved = 0;
};

struct Stacks {
    PythonStack python;
    NativeStack native;
    Words words;
    std::vector<WovenFrame> expected;
};

class Builder {
   public:
    Builder(Input& input, const Version& version, CodeMap& code, bool learned)
        : input_(input), version_(version), code_(code), learned_(learned) {}

    Stacks build() {
        std::size_t activations = input_.below(12);
        activations *= input_.chance(64) ? 50 : 1;  // deep recursion
        if (input_.chance(8)) {
            add_native(true);  // it has not linked its frame yet
        }
        for (std::size_t i = 0; i < activations; ++i) {
            add_activation();
        }
        add_helpers();
        fill_memory();
        const bool calls = !native().frames.empty() && !native().frames.front().place.eval_loop;
        if (version_.kind == Version::Kind::kEntryFrames && learned_ && calls && input_.chance(4)) {
            // As greenlet hides entry frames: the innermost ones, one after the other; a C function of it does so.
            const auto hidden = static_cast<std::ptrdiff_t>(input_.below(python().segments.size() + 1));
            python().segments.erase(python().segments.begin(), python().segments.begin() + hidden);
        }
        return std::move(stacks_);
    }

   private:
    PythonStack& python() { return stacks_.python; }
    NativeStack& native() { return stacks_.native; }

    void add_native(bool activation) {
        stacks_.expected.push_back({WovenFrame::Kind::kNative, activation ? Proof::kProven : Proof::kNone,
                                    static_cast<std::uint32_t>(native().frames.size())});
        if (activation && python().segments.empty()) {
            stacks_.expected.back().proof = Proof::kNone;
        }
        NativeFrame frame;
        frame.pc = kCode + 1 + input_.below(kCodeSize);
        frame.is_return = !native().frames.empty();
        frame.place = code_.find(frame.lookup());
        frame.place.eval_loop = activation;
        frame.stack_pointer = top_;
        top_ += 16 * (1 + input_.below(8)) + (activation ? 512 : 0);
        frame.cfa = top_;
        native().frames.push_back(frame);
    }

    void add_helpers() {
        for (std::size_t count = input_.below(4); count > 0; --count) {
            add_native(false);
        }
    }

    void add_activation() {
        add_helpers();
        const std::size_t count = version_.kind == Version::Kind::kPointers ? 1 : 1 + input_.below(4);
        for (std::size_t i = 0; i < count; ++i) {
            const auto index = static_cast<std::uint32_t>(python().frames.size());
            python().frames.push_back({index, 0, false});
            python().callers.push_back(kHeap + 64 * (index + 1));
            stacks_.expected.push_back({WovenFrame::Kind::kPython, Proof::kNone, index});
        }
        python().segments.push_back({0, static_cast<std::uint32_t>(python().frames.size())});
        add_native(true);
        NativeFrame& frame = native().frames.back();
        Segment& segment = python().segments.back();
        const bool addresses = version_.kind != Version::Kind::kPointers;
        segment.anchor = addresses ? frame.cfa - version_.distance : kHeap + 64 * segment.end;
        if (version_.slot == 0) {
            frame.preserved[version_.preserved] = segment.anchor;
        }
    }

    void fill_memory() {
        stacks_.words.words.assign((top_ - kStack) / 8 + 512, 0);
        for (std::size_t i = 0; i + 1 < native().frames.size(); ++i) {
            stacks_.words.set(native().frames[i].cfa - 8, native().frames[i + 1].pc);
        }
        if (version_.kind == Version::Kind::kEntryFrames && skips() && !python().callers.empty()) {
            // What an earlier activation has left where the newest one begins.
            const Address left = native().frames.front().cfa - version_.distance;
            stacks_.words.set(left + kOwner, kShim);
            stacks_.words.set(left + kPrevious, python().callers[input_.below(python().callers.size())]);
        }
        std::size_t next = 0;
        for (const NativeFrame& frame : native().frames) {
            if (!frame.place.eval_loop || next == python().segments.size() ||
                (&frame == native().frames.data() && skips())) {
                continue;
            }
            const Segment& segment = python().segments[next++];
            if (version_.kind == Version::Kind::kEntryFrames) {
                stacks_.words.set(segment.anchor + kOwner, kShim);
                stacks_.words.set(segment.anchor + kPrevious, python().callers[segment.end - 1]);
            } else if (version_.kind == Version::Kind::kPointers && version_.slot != 0) {
                stacks_.words.set(frame.cfa - static_cast<Address>(version_.slot), segment.anchor);
            }
        }
    }

    // Whether the newest activation has no segment.
    bool skips() const {
        const auto loops =
            std::ranges::count_if(stacks_.native.frames, [](auto& each) { return each.place.eval_loop; });
        return static_cast<std::size_t>(loops) > stacks_.python.segments.size();
    }

    Input& input_;
    const Version& version_;
    CodeMap& code_;
    const bool learned_;
    Address top_ = kStack;
    Stacks stacks_;
};

// What a process that changes, or that means harm, may let us see.
void damage(Stacks& stacks, Input& input) {
    PythonStack& python = stacks.python;
    auto& frames = stacks.native.frames;
    for (std::size_t count = 1 + input.below(8); count > 0; --count) {
        const auto any = [&](auto& from) {
            return from.begin() + static_cast<std::ptrdiff_t>(input.below(from.size()));
        };
        const Address near = kStack + 8 * input.below(1 << 12);
        const auto kind = input.below(13);
        if (frames.empty() || python.segments.empty()) {
            return;
        }
        switch (kind) {
            case 0: any(python.segments)->anchor = near; break;
            case 1: any(python.segments)->anchor = input.word(); break;
            case 2: std::iter_swap(any(python.segments), any(python.segments)); break;
            case 3: any(frames)->stack_pointer = near; break;
            case 4: any(frames)->cfa = input.chance(2) ? near : input.word(); break;
            case 5: any(frames)->place.eval_loop ^= true; break;
            case 6: any(frames)->place = {}; break;
            case 7:
                frames.erase(any(frames), frames.end());
                stacks.native.loss = input.chance(4) ? Loss::kUnreadable : Loss::kNoUnwind;
                break;
            case 8:
                python.segments.erase(any(python.segments), python.segments.end());
                python.loss = input.chance(2) ? Loss::kCycle : Loss::kNone;
                break;
            case 9: *any(python.callers) = *any(python.callers); break;
            case 10:  // an anchor, perhaps, and no frames before it
                python.segments = {{any(python.segments)->anchor, 0}};
                python.frames.clear();
                python.callers.clear();
                return;
            case 11: *any(stacks.words.words) = input.chance(2) ? kCode + input.below(kCodeSize) : input.word(); break;
            default:
                python.segments.insert(any(python.segments), *any(python.segments));
                python.segments.resize(std::min(python.segments.size(), python.frames.size()));
        }
    }
    // Their ends are counted by the walker itself.
    std::ranges::sort(python.segments, {}, &Segment::end);
}

// A pointer that an activation holds, or a struct in it: what is called proven can be seen.
bool holds(const Stacks& stacks, const NativeFrame& frame, const Segment& segment, const Version& version) {
    if (version.kind != Version::Kind::kPointers) {
        return frame.holds(segment.anchor);
    }
    bool found = std::ranges::find(frame.preserved, segment.anchor) != frame.preserved.end();
    for (Address address = std::max(frame.stack_pointer, frame.cfa - 512); address < frame.cfa && !found;
         address += 8) {
        const std::size_t index = (address - kStack) / 8;
        found = address >= kStack && index < stacks.words.words.size() && stacks.words.words[index] == segment.anchor;
    }
    return found;
}

void check_damaged(const Stacks& stacks, const WovenStack& woven, const Version& version) {
    std::uint32_t python = 0;
    std::uint32_t native = 0;
    std::uint64_t gaps = 0;
    std::array<std::uint64_t, kProofs> seams{};
    for (const WovenFrame& frame : woven.frames) {
        switch (frame.kind) {
            case WovenFrame::Kind::kPython: check(frame.index == python++); break;
            case WovenFrame::Kind::kMarker:
                check(frame.index < kLossCount);
                ++gaps;
                break;
            case WovenFrame::Kind::kNative:
                check(frame.index == native++);
                ++seams[static_cast<std::size_t>(frame.proof)];
                if (frame.proof == Proof::kProven) {
                    const auto proves = [&](const Segment& segment) {
                        return holds(stacks, stacks.native.frames[frame.index], segment, version);
                    };
                    const auto& segments = stacks.python.segments;
                    const auto begin = std::ranges::lower_bound(segments, python, {}, &Segment::end);
                    const auto end = std::ranges::upper_bound(segments, python, {}, &Segment::end);
                    // A segment that is none of the walker's was found by its entry frame.
                    check((begin == end && version.kind == Version::Kind::kEntryFrames) ||
                          std::any_of(begin, end, proves));
                }
        }
    }
    check(python == (woven.lacks_python ? 0 : stacks.python.frames.size()) && native == stacks.native.frames.size());
    check(gaps >= woven.gaps);
    const bool calls = std::ranges::any_of(
        stacks.native.frames, [](const NativeFrame& each) { return each.is_return && each.place.eval_loop; });
    const bool proven = seams[static_cast<std::size_t>(Proof::kProven)] != 0;
    check(woven.lacks_python ? python == 0 && !proven : python != 0 || proven || !calls);
    check(woven.seams[1] == seams[1] && woven.seams[2] == seams[2] && woven.seams[3] >= seams[3] + woven.gaps);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static CodeMap code = code_map();
    Input input(data, size);
    const Version version(input);
    const bool whole = input.chance(2);
    Weaver weaver(version.layout);
    WovenStack woven;
    StackCopy copy;
    bool learned = false;  // where anchors are
    for (int round = 0; round < 16 && !input.at_end(); ++round) {
        Stacks stacks = Builder(input, version, code, learned).build();
        if (!whole && input.chance(2)) {
            damage(stacks, input);
        }
        const std::vector<NativeFrame> given = stacks.native.frames;
        copy.begin(stacks.words, kStack);
        weaver.weave(stacks.python, stacks.native, code, copy, woven);
        const auto same = [](const NativeFrame& a, const NativeFrame& b) { return a.pc == b.pc && a.cfa == b.cfa; };
        check(given.size() <= stacks.native.frames.size() &&
              std::equal(given.begin(), given.end(), stacks.native.frames.begin(), same));
        check_damaged(stacks, woven, version);
        check(!whole || woven.frames == stacks.expected);
        learned = learned || woven.seams[static_cast<std::size_t>(Proof::kProven)] != 0;
    }
    return 0;
}
