// What a look has seen: woven, and as a number.

#include <algorithm>

#include "sampler/sampler.h"

namespace weft {

// `stack_` into the native stack, if that is wanted, and known by the registers; or by the kernel's walk.
void Sampler::weave(SampledThread& thread, const RegisterSet& registers, Memory& memory, const KernelSample* sample) {
    if (!options_.native) {
        return;
    }
    SampledProcess& process = thread.process;
    native_.frames.clear();
    native_.loss = Loss::kNoRegisters;
    if (registers.has(Register::kReturn)) {
        native_look_.begin(memory);
        const bool is_read = sample == nullptr && process.python;
        stack_copy_.begin(native_look_, registers.get(Register::kRsp),
                          is_read ? process.python->stack() : std::span<const std::byte>{});
        if (sample != nullptr && sample->native_is_done()) {
            sample->native(process.code, native_);
        } else {
            unwind(stack_copy_, process.code, registers, native_);
        }
    }
    if (lacks_code(native_)) {
        keep_for_later(process, registers);
    }
    process.weaver->weave(stack_, native_, process.code, stack_copy_, woven_);
    if (registers.has(Register::kReturn)) {
        thread.stack_end = stack_copy_.used_up_to();
    }
}

// stack_ as a number; and what is to be said of it.
std::uint32_t Sampler::intern(SampledThread& thread) {
    SampledProcess& process = thread.process;
    Account& account = batch_.account;
    ++account.samples_taken;
    std::uint32_t root = 0;
    if (stack_.loss != Loss::kNone) {
        ++account.stacks_truncated;
        root = mark_as_cut(process);
    } else {
        ++account.stacks_whole;
    }
    if (stack_.unproven) {
        process.losses.add(Loss::kInterpreterUnproven, 1, 0);
    }
    if (std::ranges::any_of(stack_.frames, &PythonFrame::incomplete)) {
        ++account.stacks_incomplete;
    }
    if (process.python) {
        for (CodeDefinition& code : process.python->codes().take_definitions()) {
            batch_.codes.push_back({process.id, std::move(code)});
        }
    }
    account_kernel(process);
    make_keys();
    std::uint32_t stack = 0;
    if (late_) {
        LateStack late = std::move(*late_);
        late_.reset();
        stack = add_late_stack(process, std::move(late), root);
    } else {
        account_native(process);
        stack = stacks_.intern(keys_, root, thread.last_stack);
    }
    if (const std::uint32_t below = process.python ? process.python->take_forgotten() : 0; below != 0) {
        complete_late(process, true);  // they may name code objects that are forgotten
        tell(process, Event::Kind::kCodesForgotten, below);
    }
    return stack;
}

// The root of a stack that lacks Python frames, which says so.
std::uint32_t Sampler::mark_as_cut(SampledProcess& process) {
    process.losses.add(stack_.loss, 1, 0);
    const FrameKey marker = FrameKey::missing(stack_.loss, false);
    return stacks_.intern({&marker, 1}, 0);
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

void Sampler::account_kernel(SampledProcess& process) {
    if (options_.native) {
        process.losses.add(Loss::kDepth, kernel_.size() >= kMaxKernelFrames ? 1 : 0, 0);
        batch_.account.kernel_stacks += kernel_.empty() ? 0 : 1;
        batch_.account.kernel_hidden += kernel_hidden_ ? 1 : 0;
    }
}

void Sampler::account_native(SampledProcess& process) {
    if (!options_.native) {
        return;
    }
    Account& account = batch_.account;
    account.seams_proven += woven_.seams[static_cast<std::size_t>(Proof::kProven)];
    account.seams_counted += woven_.seams[static_cast<std::size_t>(Proof::kCounted)];
    account.seams_open += woven_.seams[static_cast<std::size_t>(Proof::kOpen)];
    if (woven_.unconfirmed != 0) {
        process.losses.add(Loss::kFramePointer, 1, 0);
    }
    const bool whole = native_.loss == Loss::kNone && woven_.gaps == 0;
    ++(whole ? account.native_whole : account.native_truncated);
    if (!whole) {
        process.losses.add(native_.loss != Loss::kNone ? native_.loss : Loss::kNoUnwind, 1, 0);
    }
}

// The frames of what was seen. The kernel's are called by the innermost frame of user mode.
void Sampler::make_keys() {
    keys_.clear();
    if (!options_.native) {
        for (const PythonFrame& frame : stack_.frames) {
            keys_.push_back(FrameKey::of(frame));
        }
        return;
    }
    keys_ = kernel_;
    if (kernel_.size() >= kMaxKernelFrames) {
        keys_.push_back(FrameKey::missing(Loss::kDepth, true));
    }
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
}

}  // namespace weft
