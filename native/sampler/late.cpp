// Code that is not known yet: it is asked for, and stacks that lead through it are kept until it is.

#include <algorithm>

#include "sampler/sampler.h"

namespace weft {

namespace {

// Between two questions about code that is in no module, in ns.
constexpr std::uint64_t kFirstCodePause = 10'000'000;
constexpr std::uint64_t kLastCodePause = 1'000'000'000;

}  // namespace

bool Sampler::lacks_code(const NativeStack& native) {
    return native.loss == Loss::kNoUnwind && native.frames.back().place.table == nullptr;
}

void Sampler::ask_for_code(SampledProcess& process, Address pc) {
    if (const std::uint32_t module = process.code.find(pc).module; module != 0) {
        if (process.code_wanted.insert(module).second) {
            tell(process, Event::Kind::kCodeUnknown, static_cast<std::int64_t>(pc));
        }
        return;
    }
    // It may be a library that has just been loaded, or code that is in no file, which will be met again and again.
    if (const std::uint64_t now_ns = monotonic_ns(); now_ns >= process.next_code_ask_ns) {
        process.code_ask_pause_ns = std::clamp(2 * process.code_ask_pause_ns, kFirstCodePause, kLastCodePause);
        process.next_code_ask_ns = now_ns + process.code_ask_pause_ns;
        process.code_asked = pc;
        tell(process, Event::Kind::kCodeUnknown, static_cast<std::int64_t>(pc));
    }
}

void Sampler::take_code(SampledProcess& process, const CodeMap& code) {
    process.code = code;
    tell_kernel(process);
    if (const CodeMap::Place& asked = process.code.find(process.code_asked); asked.module != 0 && !asked.anonymous) {
        process.next_code_ask_ns = process.code_ask_pause_ns = 0;  // libraries are being loaded
    }
    for (const auto& [tid, thread] : process.threads) {
        if (std::exchange(thread->code_lacked, false)) {
            thread->blocked.reset();
            thread->next_check_ns = 0;
        }
    }
    complete_late(process, false);
}

// What the look at hand needs to be unwound again.
void Sampler::keep_for_later(SampledProcess& process, const RegisterSet& registers) {
    const Address pc = native_.frames.back().lookup();
    ask_for_code(process, pc);
    if (late_bytes_ < LateStack::kMostInAll) {
        const auto bytes = stack_copy_.bytes(LateStack::kMostBytes);
        LateStack& late = late_.emplace();
        late.bytes.assign(bytes.begin(), bytes.end());
        late.registers = registers;
        late.lacks = pc;
    }
}

// The number of its stack, keys_, which so far is told as far as it could be unwound.
std::uint32_t Sampler::add_late_stack(SampledProcess& process, LateStack late, std::uint32_t root) {
    late.stack = stacks_.add(keys_, root);
    late.root = root;
    late.until_ns = monotonic_ns() + LateStack::kPatience;
    late.python = stack_;
    late.kernel = kernel_;
    late_bytes_ += late.size();
    process.late.push_back(std::move(late));
    return process.late.back().stack;
}

// Tells late stacks as what they are with the code that is known now; those that lack more of it wait on, until they are given
// up: in time, or all of them (the process may be gone then, or be another program, and its memory is not read).
void Sampler::complete_late(SampledProcess& process, bool give_up) {
    const std::uint64_t now_ns = monotonic_ns();
    process.memory.read_through(process.pid);
    for (LateStack& late : std::exchange(process.late, {})) {
        const bool waits = !give_up && now_ns < late.until_ns;
        if (waits && process.code.find(late.lacks).table == nullptr) {
            ask_for_code(process, late.lacks);
            process.late.push_back(std::move(late));
            continue;
        }
        const std::size_t size = late.size();
        LateMemory memory(late, process.code, give_up ? nullptr : &process.memory);
        native_look_.begin(memory);
        stack_copy_.begin(native_look_, late.registers.get(Register::kRsp));
        unwind(stack_copy_, process.code, late.registers, native_);
        if (waits && lacks_code(native_)) {
            late.lacks = native_.frames.back().lookup();
            ask_for_code(process, late.lacks);
            process.late.push_back(std::move(late));
            continue;
        }
        late_bytes_ -= size;
        stack_ = std::move(late.python);
        kernel_ = std::move(late.kernel);
        process.weaver->weave(stack_, native_, process.code, stack_copy_, woven_);
        if (woven_.lacks_python && stack_.loss == Loss::kNone) {
            stack_.loss = Loss::kBetween;
            late.root = mark_as_cut(process);
        }
        account_native(process);
        make_keys();
        stacks_.tell_anew(late.stack, keys_, late.root);
    }
}

}  // namespace weft
