// What a look has seen: woven, and as a number.

#include <algorithm>

#include "sampler/sampler.h"

namespace weft {

namespace {

// Between two questions about code that is in no module, in ns.
constexpr std::uint64_t kFirstCodePause = 10'000'000;
constexpr std::uint64_t kLastCodePause = 1'000'000'000;

}  // namespace

// `stack_` into the native stack, if that is wanted, and known by the registers.
void Sampler::weave(SampledThread& thread, const RegisterSet& registers) {
    if (!options_.native) {
        return;
    }
    SampledProcess& process = thread.process;
    native_.frames.clear();
    native_.loss = Loss::kNoRegisters;
    if (registers.has(Register::kReturn)) {
        native_look_.begin(process.memory);
        stack_copy_.begin(native_look_, registers.get(Register::kRsp));
        unwind(stack_copy_, process.code, registers, native_);
    }
    if (native_.loss == Loss::kNoUnwind && native_.frames.back().place.table == nullptr) {
        ask_for_code(process, native_.frames.back());
    }
    process.weaver->weave(stack_, native_, process.code, stack_copy_, woven_);
}

void Sampler::ask_for_code(SampledProcess& process, const NativeFrame& frame) {
    const std::uint32_t module = frame.place.module;
    if (module != 0) {
        if (process.code_wanted.insert(module).second) {
            tell(process, Event::Kind::kCodeUnknown, static_cast<std::int64_t>(frame.lookup()));
        }
        return;
    }
    // It may be a library that has just been loaded, or code that is in no file, which will be met again and again.
    if (const std::uint64_t now_ns = monotonic_ns(); now_ns >= process.next_code_ask_ns) {
        process.code_ask_pause_ns = std::clamp(2 * process.code_ask_pause_ns, kFirstCodePause, kLastCodePause);
        process.next_code_ask_ns = now_ns + process.code_ask_pause_ns;
        tell(process, Event::Kind::kCodeUnknown, static_cast<std::int64_t>(frame.lookup()));
    }
}

// stack_ as a number; and what is to be said of it.
std::uint32_t Sampler::intern(SampledThread& thread) {
    Account& account = batch_.account;
    ++account.samples_taken;
    std::uint32_t root = 0;
    if (stack_.loss != Loss::kNone) {
        ++account.stacks_truncated;
        thread.process.losses.add(stack_.loss, 1, 0);
        const FrameKey marker = FrameKey::missing(stack_.loss, false);
        root = stacks_.intern({&marker, 1}, 0);
    } else {
        ++account.stacks_whole;
    }
    if (stack_.unproven) {
        thread.process.losses.add(Loss::kInterpreterUnproven, 1, 0);
    }
    if (std::ranges::any_of(stack_.frames, &PythonFrame::incomplete)) {
        ++account.stacks_incomplete;
    }
    if (thread.process.python) {
        if (const std::uint32_t below = thread.process.python->take_forgotten(); below != 0) {
            tell(thread.process, Event::Kind::kCodesForgotten, below);
        }
        for (CodeDefinition& code : thread.process.python->codes().take_definitions()) {
            batch_.codes.push_back({thread.process.id, std::move(code)});
        }
    }
    make_keys(thread);
    return stacks_.intern(keys_, root);
}

void Sampler::note_kernel(const KernelChain& chain) {
    for (std::size_t i = 0; i < chain.count; ++i) {
        kernel_.push_back(FrameKey::kernel(chain.addresses[i]));
    }
}

void Sampler::note_kernel(const std::vector<std::string>& functions) {
    for (const std::string& function : functions) {
        kernel_.push_back(FrameKey::kernel_name(kernel_names_.intern(function)));
    }
}

// They are called by the innermost frame of user mode.
void Sampler::add_kernel_frames(SampledThread& thread) {
    keys_.insert(keys_.end(), kernel_.begin(), kernel_.end());
    if (kernel_.size() >= kMaxKernelFrames) {
        keys_.push_back(FrameKey::missing(Loss::kDepth, true));
        thread.process.losses.add(Loss::kDepth, 1, 0);
    }
    batch_.account.kernel_stacks += kernel_.empty() ? 0 : 1;
    batch_.account.kernel_hidden += kernel_hidden_ ? 1 : 0;
}

// The frames of what was seen.
void Sampler::make_keys(SampledThread& thread) {
    keys_.clear();
    if (!options_.native) {
        for (const PythonFrame& frame : stack_.frames) {
            keys_.push_back(FrameKey::of(frame));
        }
        return;
    }
    add_kernel_frames(thread);
    for (const WovenFrame& frame : woven_.frames) {
        switch (frame.kind) {
            case WovenFrame::Kind::kPython: keys_.push_back(FrameKey::of(stack_.frames[frame.index])); break;
            case WovenFrame::Kind::kNative:
                keys_.push_back(FrameKey::of(native_.frames[frame.index], frame.proof));
                break;
            case WovenFrame::Kind::kMarker:
                keys_.push_back(FrameKey::missing(static_cast<Loss>(frame.index), true));
                break;
        }
    }
    Account& account = batch_.account;
    account.seams_proven += woven_.seams[static_cast<std::size_t>(Proof::kProven)];
    account.seams_counted += woven_.seams[static_cast<std::size_t>(Proof::kCounted)];
    account.seams_open += woven_.seams[static_cast<std::size_t>(Proof::kOpen)];
    if (woven_.unconfirmed != 0) {
        thread.process.losses.add(Loss::kFramePointer, 1, 0);
    }
    const bool whole = native_.loss == Loss::kNone && woven_.gaps == 0;
    ++(whole ? account.native_whole : account.native_truncated);
    if (!whole) {
        thread.process.losses.add(native_.loss != Loss::kNone ? native_.loss : Loss::kNoUnwind, 1, 0);
    }
}

}  // namespace weft
