#include "weave/weave.h"

#include <algorithm>
#include <span>

namespace weft {

namespace {

// Whether there are frames, and more above them that were not come to.
bool breaks_off(const NativeStack& native) {
    return !native.frames.empty() && (native.loss == Loss::kNoUnwind || native.loss == Loss::kNoRegisters);
}

constexpr std::size_t kMaxDistances = 16;
constexpr std::size_t kAligned = 8;    // seams that are compared to tell which activation is the first
constexpr std::uint64_t kLearned = 8;  // activations, before their constant is relied on
// Of links that are looked at in one sample: memory can be made to name each again and again.
constexpr std::size_t kMaxLinks = 4 << 20;
constexpr std::int32_t kMaxSlot = 512;  // bytes from the CFA down

std::optional<std::uint64_t> value_of(const NativeFrame& frame, std::int32_t offset, StackCopy& words) {
    const Address address = frame.cfa + static_cast<Address>(std::int64_t{offset});
    return frame.holds(address) ? words.word(address) : std::nullopt;
}

}  // namespace

Weaver::Weaver(const Layout& layout)
    : layout_(layout), anchors_are_addresses_(layout.frame_is_entry != kAbsent || layout.frame_owner_shim != kAbsent) {}

void Weaver::weave(const PythonStack& python, NativeStack& native, CodeMap& code, StackCopy& words, WovenStack& woven) {
    segments_ = python.segments;
    seams_.clear();
    activations_.clear();
    bool are_own = true;
    find_activations(native, 0);
    if (anchors_are_addresses_) {
        find_segments(python, native, words);
        pair_by_address(native, 0);
        while (seams_.size() < segments_.size() && breaks_off(native)) {
            const auto behind = static_cast<std::uint32_t>(native.frames.size());
            if (!cross_gap(segments_[seams_.size()].anchor, native, code, words)) {
                break;
            }
            find_activations(native, behind);
            pair_by_address(native, behind);
        }
        if (seams_.size() < segments_.size() && native.loss == Loss::kNone && python.loss == Loss::kNone) {
            pair_by_count();
        }
    } else {
        are_own = pair_by_value(python, native, words);
    }
    if (!are_own) {
        segments_.clear();
        seams_.clear();
    }
    lay(are_own ? python.frames.size() : 0, native, woven);
    const auto proven = std::ranges::find(seams_.rbegin(), seams_.rend(), Proof::kProven, &Seam::proof);
    const std::size_t confirmed = proven == seams_.rend() ? 0 : proven->native;
    woven.lacks_python = !are_own || lacks_frames(python, native);
    woven.unconfirmed = static_cast<std::uint64_t>(
        std::ranges::count(std::span(native.frames).subspan(confirmed), true, &NativeFrame::by_frame_pointer));
}

void Weaver::find_activations(const NativeStack& native, std::uint32_t from) {
    for (std::uint32_t i = from; i < native.frames.size(); ++i) {
        if (native.frames[i].place.eval_loop) {
            activations_.push_back(i);
        }
    }
}

// Each anchor lies in one activation, and those of outer segments in outer ones.
void Weaver::pair_by_address(NativeStack& native, std::uint32_t next) {
    for (std::size_t i = seams_.size(); i < segments_.size(); ++i) {
        const Segment& segment = segments_[i];
        std::uint32_t at = next;
        while (at < native.frames.size() && !native.frames[at].holds(segment.anchor)) {
            ++at;
        }
        // A step by frame pointer may lead past frames. If it does not lead to where the anchor is known to be, it was wrong.
        const auto passed_frames =
            std::span(native.frames).subspan(next, std::min<std::size_t>(at + 1, native.frames.size()) - next);
        const auto guess = std::ranges::find(passed_frames, true, &NativeFrame::by_frame_pointer);
        if (guess != passed_frames.end() && (at == native.frames.size() || !is_at(segment.anchor, native.frames[at]))) {
            guess->cfa = 0;
            guess->by_frame_pointer = false;
            native.frames.resize(static_cast<std::size_t>(next + (guess - passed_frames.begin()) + 1));
            native.loss = Loss::kNoUnwind;
            std::erase_if(activations_, [&](std::uint32_t activation) { return activation >= native.frames.size(); });
            return;
        }
        if (at == native.frames.size()) {
            return;
        }
        const bool expected = is_learned(native.frames[at].cfa - segment.anchor,
                                         native.frames[at].is_return ? native.frames[at].place : CodeMap::Place{});
        // The newest activation may have no segment: it has just begun, or is about to end. No other is passed over.
        const auto passed = std::ranges::lower_bound(activations_, next);
        const auto skipped = std::ranges::lower_bound(passed, activations_.end(), at) - passed;
        const bool skips = skipped > (seams_.empty() ? 1 : 0);
        seams_.push_back({at, expected && !skips ? Proof::kProven : Proof::kOpen});
        if (seams_.back().proof == Proof::kProven && !native.frames[at].place.eval_loop) {
            site_of(native.frames[at]) = native.frames[at].place.address;
        }
        next = at + 1;
    }
}

// Whether this is an activation that keeps its anchors where they are known to be.
bool Weaver::is_at(Address anchor, const NativeFrame& frame) const {
    return distances_.empty() || frame.cfa - anchor == distances_.front().bytes;
}

// Whether anchors are at this distance in most activations: it is one constant for each binary.
bool Weaver::is_learned(Address distance, const CodeMap::Place& place) {
    auto found = std::ranges::find(distances_, distance, &Distance::bytes);
    if (found == distances_.end()) {
        if (distances_.size() == kMaxDistances) {
            distances_.pop_back();
        }
        found = distances_.insert(distances_.end(), {distance, 0, {}});
    }
    ++found->seen;
    if (place.table != nullptr) {
        found->place = place;
    }
    while (found != distances_.begin() && found->seen > std::prev(found)->seen) {
        std::iter_swap(found, std::prev(found));
        --found;
    }
    return found == distances_.begin();
}

// The activation of this anchor lies in or behind code that cannot be unwound. But its CFA is known, and what it has saved.
bool Weaver::cross_gap(Address anchor, NativeStack& native, CodeMap& code, StackCopy& words) {
    if (distances_.empty() || distances_.front().seen < kLearned || native.frames.empty() ||
        anchor < native.frames.back().stack_pointer) {
        return false;
    }
    const Loss loss = native.loss;
    const auto behind = static_cast<std::uint32_t>(native.frames.size());
    const Distance& distance = distances_.front();
    if (!unwind_caller(words, code, anchor + distance.bytes, distance.place, native)) {
        return false;
    }
    seams_.push_back({behind, Proof::kOpen, loss});
    return true;
}

// Before a greenlet is switched out, its frames are linked past their entry frames, one after the other (greenlet's
// expose_frames, 3.12 on), so that several segments look like one. The entry frames are still in the activations, and tell where
// segments end: at the frame that is linked to what the entry frame is.
void Weaver::find_segments(const PythonStack& python, const NativeStack& native, StackCopy& words) {
    if (layout_.frame_owner_shim == kAbsent || distances_.empty() || python.callers.size() != python.frames.size()) {
        return;
    }
    std::size_t budget = kMaxLinks;
    std::size_t done = 0;
    auto known = segments_.cbegin();
    found_.clear();
    for (const std::uint32_t at : activations_) {
        const Address entry = native.frames[at].cfa - distances_.front().bytes;
        if (known != segments_.cend() && known->anchor == entry) {
            done = known->end;
            found_.push_back(*known++);
            continue;
        }
        // An activation that has called nothing does not switch: it begins, and what lies there is an earlier one's.
        if (at == 0) {
            continue;
        }
        const auto owner = words.word(entry + layout_.frame_owner);
        const auto previous = words.word(entry + layout_.frame_previous);
        if (!native.frames[at].holds(entry) || !owner || !previous || (*owner & 0xff) < layout_.frame_owner_shim) {
            continue;
        }
        // The last frame of a segment that is known is linked to the entry frame of its own.
        const std::size_t last =
            known != segments_.cend() ? std::max<std::size_t>(known->end, 1) - 1 : python.frames.size();
        const auto rest = std::span(python.callers).first(last).subspan(std::min(done, last));
        const auto looked_at = rest.first(std::min(rest.size(), budget));
        const auto end = std::ranges::find(looked_at, *previous);
        budget -= static_cast<std::size_t>(end - looked_at.begin());
        if (end != looked_at.end()) {
            done += static_cast<std::size_t>(end - looked_at.begin()) + 1;
            found_.push_back({entry, static_cast<std::uint32_t>(done)});
        }
    }
    found_.insert(found_.end(), known, segments_.cend());
    segments_.swap(found_);
}

// Up to 3.10: an activation keeps the pointer to its one frame in a register, or in its stack frame, and nearly always in the
// same place. The newest one may not have linked its frame yet, or have unlinked it already; the outermost ones may be those
// of a greenlet that has switched to this one.
bool Weaver::pair_by_value(const PythonStack& python, const NativeStack& native, StackCopy& words) {
    // Where either stack ends early, what there is of both has to agree.
    const bool cut = native.loss != Loss::kNone || python.loss != Loss::kNone;
    const bool counted =
        !cut && (activations_.size() == segments_.size() || activations_.size() == segments_.size() + 1);
    const auto held = [&](std::size_t segment, std::size_t activation) {
        return segment < segments_.size() && activation < activations_.size() &&
               is_held(segments_[segment].anchor, native.frames[activations_[activation]], words);
    };
    // One that has just begun may hold its caller's pointer, too: the alignment is the one in which more agree, or else the one
    // by number.
    const auto agreeing = [&](std::size_t skipped) {
        std::size_t count = 0;
        for (std::size_t i = 0; i < std::min(segments_.size(), kAligned); ++i) {
            count += held(i, i + skipped) ? 1 : 0;
        }
        return count;
    };
    const std::size_t by_number = activations_.size() > segments_.size() ? 1 : 0;
    const std::size_t none = agreeing(0);
    const std::size_t one = agreeing(1);
    const std::size_t more = none == one ? by_number : none > one ? 0 : 1;
    // One that has called something always holds its frame. If none does, these are frames of the past, to which junk has led;
    // or it is not known yet where this interpreter holds them.
    if (none + one == 0 && activations_.size() > 1 && !segments_.empty() && !python.unproven) {
        return !slot_;
    }
    for (std::size_t i = 0; i < segments_.size() && i + more < activations_.size(); ++i) {
        const bool proven = held(i, i + more);
        if (!proven && !counted) {
            return true;
        }
        seams_.push_back({activations_[i + more], proven ? Proof::kProven : Proof::kCounted});
    }
    return true;
}

// Whether a native frame keeps this pointer.
bool Weaver::is_held(Address pointer, const NativeFrame& frame, StackCopy& words) {
    const auto holds = [&](const Slot& slot) {
        const auto value =
            slot.in_register ? std::optional(frame.preserved[slot.preserved]) : value_of(frame, slot.offset, words);
        return value == pointer;
    };
    if (slot_ && holds(*slot_)) {
        return true;
    }
    const auto found = [&](const Slot& slot) {
        if (!holds(slot)) {
            return false;
        }
        slot_ = slot;
        return true;
    };
    for (std::uint32_t i = 0; i < kPreserved.size(); ++i) {
        if (found({true, i, 0})) {
            return true;
        }
    }
    for (std::int32_t offset = -8; offset >= -kMaxSlot; offset -= 8) {
        if (found({false, 0, offset})) {
            return true;
        }
    }
    return false;
}

// Without anchors, if there are as many activations as segments, or one more that has not linked its frame.
void Weaver::pair_by_count() {
    const std::size_t segments = segments_.size();
    if (activations_.size() != segments && activations_.size() != segments + 1) {
        return;
    }
    const std::size_t more = activations_.size() - segments;
    for (std::size_t i = 0; i < seams_.size(); ++i) {
        if (seams_[i].native != activations_[i + more]) {
            return;
        }
    }
    for (std::size_t i = seams_.size(); i < segments; ++i) {
        seams_.push_back({activations_[i + more], Proof::kCounted});
    }
}

// Whether there is an activation, and yet there are no frames: what leads to them is wrong, or they are those of the greenlet that
// starts this one. One that has called nothing may not have linked its first frame yet; that, too, is between frames. One that
// clears its last frame has its anchor alone, where it belongs; junk may look like an anchor, too, but lies elsewhere.
bool Weaver::lacks_frames(const PythonStack& python, const NativeStack& native) {
    return python.frames.empty() && std::ranges::find(seams_, Proof::kProven, &Seam::proof) == seams_.end() &&
           std::ranges::any_of(native.frames, [&](const NativeFrame& frame) {
               const CodeMap::Place& place = frame.place;
               return place.eval_loop || (frame.is_return && place.address != 0 && site_of(frame) == place.address);
           });
}

Address& Weaver::site_of(const NativeFrame& frame) {
    return sites_[(frame.place.address ^ frame.place.module) % sites_.size()];
}

void Weaver::lay(std::size_t python_frames, const NativeStack& native, WovenStack& woven) const {
    woven.frames.clear();
    woven.seams = {};
    woven.gaps = 0;
    std::uint32_t next_native = 0;
    std::uint32_t next_python = 0;
    const auto lay_native = [&](std::size_t to) {
        while (next_native < to) {
            woven.frames.push_back({WovenFrame::Kind::kNative, Proof::kNone, next_native++});
        }
    };
    const auto lay_python = [&](std::size_t to) {
        while (next_python < to) {
            woven.frames.push_back({WovenFrame::Kind::kPython, Proof::kNone, next_python++});
        }
    };
    for (std::size_t i = 0; i < seams_.size(); ++i) {
        const Seam& seam = seams_[i];
        lay_native(seam.native);
        ++woven.seams[static_cast<std::size_t>(seam.proof)];
        if (seam.gap != Loss::kNone) {
            ++woven.gaps;
            woven.frames.push_back({WovenFrame::Kind::kMarker, seam.proof, static_cast<std::uint32_t>(seam.gap)});
        }
        lay_python(segments_[i].end);
        if (seam.gap == Loss::kNone) {
            woven.frames.push_back({WovenFrame::Kind::kNative, seam.proof, next_native++});
        }
    }
    lay_native(native.frames.size());
    const bool open = next_python < python_frames;
    if (native.loss != Loss::kNone || open) {
        const Loss loss = native.loss != Loss::kNone ? native.loss : Loss::kSeamOpen;
        woven.frames.push_back(
            {WovenFrame::Kind::kMarker, open ? Proof::kOpen : Proof::kNone, static_cast<std::uint32_t>(loss)});
    }
    // Frames without a segment have been cut off from theirs, or are another greenlet's: an open seam even so.
    woven.seams[static_cast<std::size_t>(Proof::kOpen)] +=
        open ? std::max<std::size_t>(segments_.size() - seams_.size(), 1) : 0;
    lay_python(python_frames);
}

}  // namespace weft
