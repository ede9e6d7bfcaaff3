#include "unwind/unwinder.h"

#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "python/fields.h"
#include "unwind/code_rule.h"

namespace weft {

namespace {

constexpr Address kMostFrame = 1 << 20;  // bytes of a frame whose size nothing tells but its frame pointer
constexpr std::size_t kLongestCall = 7;
constexpr Address kWordSize = 8;
constexpr std::int32_t kMostOfJit = 128;  // bytes that CPython's JIT code has on the stack

// One frame: its registers, and what the rule that holds there makes of them.
class Step {
   public:
    Step(StackCopy& stack, const UnwindRule& rule, const RegisterSet& callee)
        : stack_(stack), rule_(rule), callee_(callee) {}

    Loss loss() const { return loss_; }

    std::optional<Address> cfa() {
        if (!callee_.has(rule_.base)) {
            return fail(Loss::kNoRegisters);
        }
        const Address sum = callee_.get(rule_.base) + static_cast<Address>(std::int64_t{rule_.offset});
        switch (rule_.cfa) {
            case UnwindRule::Cfa::kRegister: return sum;
            case UnwindRule::Cfa::kPlt: {
                const bool pushed = (callee_.get(Register::kReturn) & 15) >= static_cast<std::uint64_t>(rule_.addend);
                return sum + (pushed ? 8 : 0);
            }
            case UnwindRule::Cfa::kDeref: {
                const auto base = word(sum);
                return base ? std::optional(*base + static_cast<Address>(std::int64_t{rule_.addend})) : std::nullopt;
            }
            case UnwindRule::Cfa::kNone:
            case UnwindRule::Cfa::kEnd: break;
        }
        return fail(Loss::kNoUnwind);
    }

    // The caller's registers; nothing if there is no return address to be had.
    std::optional<RegisterSet> caller(Address cfa) {
        const auto pc = value(rule_.return_address, Register::kReturn, cfa);
        if (!pc) {
            return std::nullopt;
        }
        RegisterSet caller;
        caller.set(Register::kReturn, *pc);
        caller.set(Register::kRsp, cfa);
        for (std::size_t i = 0; i < kPreserved.size(); ++i) {
            if (const auto kept = value(rule_.saved[i], kPreserved[i], cfa)) {
                caller.set(kPreserved[i], *kept);
            }
        }
        loss_ = Loss::kNone;  // of a register that may never be asked for
        return caller;
    }

   private:
    std::nullopt_t fail(Loss loss) {
        loss_ = loss;
        return std::nullopt;
    }

    std::optional<std::uint64_t> word(Address address) {
        const auto read = stack_.word(address);
        if (!read) {
            loss_ = to_loss(stack_.result());
        }
        return read;
    }

    std::optional<std::uint64_t> value(const Saved& saved, Register number, Address cfa) {
        const auto offset = static_cast<Address>(std::int64_t{saved.offset});
        switch (saved.where) {
            case Saved::Where::kSame:
                if (callee_.has(number)) {
                    return callee_.get(number);
                }
                break;
            case Saved::Where::kAtCfa: return word(cfa + offset);
            case Saved::Where::kAtRegister:
                if (callee_.has(saved.base)) {
                    return word(callee_.get(saved.base) + offset);
                }
                break;
            case Saved::Where::kInRegister:
                if (callee_.has(saved.base)) {
                    return callee_.get(saved.base);
                }
                break;
            case Saved::Where::kLost: break;
        }
        return fail(Loss::kNoUnwind);
    }

    StackCopy& stack_;
    const UnwindRule& rule_;
    const RegisterSet& callee_;
    Loss loss_ = Loss::kNone;
};

// The bytes of code from an address on, as far as they can be read.
std::size_t read_code(StackCopy& words, Address address, std::span<std::byte> bytes) {
    std::size_t size = 0;
    for (; size < bytes.size(); size += sizeof(std::uint64_t)) {
        const auto word = words.word(address + size);
        if (!word) {
            break;
        }
        std::memcpy(&bytes[size], &*word, sizeof *word);
    }
    return size;
}

// Whether this can be a caller's place: known code, behind a call.
bool is_called_from(StackCopy& words, CodeMap& code, Address pc) {
    std::array<std::byte, sizeof(std::uint64_t)> before{};
    return code.find(pc - 1).module != 0 && read_code(words, pc - before.size(), before) == before.size() &&
           ends_in_call(std::span(before).last(kLongestCall));
}

// How CPython 3.14's JIT code was called, which nothing tells: between the stack pointer and the return address into its entry
// (Tools/jit/shim.c) lie some words at most. That address is known by the code behind it. The frame pointer of the eval function
// is in its register, or among these words where the code has used that for other things.
std::optional<UnwindRule> rule_up_to_entry(StackCopy& words, CodeMap& code, const RegisterSet& registers,
                                           const NativeFrame& frame) {
    // pop %rbx, %r12, %r13, %r14, %r15; ret
    constexpr std::array<std::uint8_t, 10> kLeaves = {0x5b, 0x41, 0x5c, 0x41, 0x5d, 0x41, 0x5e, 0x41, 0x5f, 0xc3};
    const auto points_up = [&](Address value) {
        return value > frame.stack_pointer && value - frame.stack_pointer < kMostFrame && value % kWordSize == 0;
    };
    UnwindRule rule;
    rule.cfa = UnwindRule::Cfa::kRegister;
    const bool has_frame = registers.has(Register::kRbp) && points_up(registers.get(Register::kRbp));
    auto& frame_pointer = rule.saved[1];
    static_assert(kPreserved[1] == Register::kRbp);
    for (std::int32_t offset = 0; offset < kMostOfJit; offset += kWordSize) {
        const auto value = words.word(frame.stack_pointer + static_cast<Address>(offset));
        if (!value) {
            return std::nullopt;
        }
        if (!has_frame && frame_pointer.where == Saved::Where::kSame && points_up(*value)) {
            frame_pointer = {Saved::Where::kAtRegister, Register::kRsp, offset};
        }
        std::array<std::byte, 2 * sizeof(std::uint64_t)> behind{};
        if (code.find(*value).anonymous && read_code(words, *value, behind) == behind.size() &&
            std::memcmp(behind.data(), kLeaves.data(), kLeaves.size()) == 0) {
            rule.offset = offset + static_cast<std::int32_t>(kWordSize);
            return rule;
        }
    }
    return std::nullopt;
}

// How a frame was called for whose code there is no rule. The code itself may tell; or else what is on the stack and its frame
// pointer, if what they lead to is a caller's place, on the same stack.
std::optional<UnwindRule> rule_without_table(StackCopy& words, CodeMap& code, const RegisterSet& registers,
                                             NativeFrame& frame) {
    const auto leads_somewhere = [&](const UnwindRule& rule) {
        Step step(words, rule, registers);
        const auto cfa = step.cfa();
        if (!cfa || *cfa <= frame.stack_pointer || *cfa - frame.stack_pointer > kMostFrame || *cfa % kWordSize != 0) {
            return false;
        }
        const auto caller = step.caller(*cfa);
        return caller && is_called_from(words, code, caller->get(Register::kReturn));
    };
    std::array<std::byte, kCodeAhead> bytes{};
    const std::span<const std::byte> ahead = std::span(bytes).first(read_code(words, frame.pc, bytes));
    if (auto rule = rule_of_code(ahead); rule && leads_somewhere(*rule)) {
        return rule;
    }
    if (frame.place.rule->by_code && leads_somewhere(*frame.place.rule)) {
        return *frame.place.rule;
    }
    auto rule = frame.place.anonymous ? rule_up_to_entry(words, code, registers, frame) : std::nullopt;
    if (!rule || !leads_somewhere(*rule)) {
        rule = rule_by_frame_pointer(ahead, frame.is_return);
        if (!leads_somewhere(*rule)) {
            return std::nullopt;
        }
    }
    frame.by_frame_pointer = true;
    return rule;
}

void go_on(StackCopy& words, CodeMap& code, RegisterSet registers, bool is_return, NativeStack& stack) {
    stack.loss = Loss::kNone;
    while (stack.frames.size() < kMaxNativeFrames) {
        NativeFrame& frame = stack.frames.emplace_back();
        frame.pc = registers.get(Register::kReturn);
        frame.stack_pointer = registers.get(Register::kRsp);
        frame.is_return = is_return;
        for (std::size_t i = 0; i < kPreserved.size(); ++i) {
            frame.preserved[i] = registers.has(kPreserved[i]) ? registers.get(kPreserved[i]) : 0;
        }
        frame.place = code.find(frame.lookup());
        if (frame.place.table == nullptr) {
            stack.loss = Loss::kNoUnwind;
            return;
        }
        if (frame.place.stack_base) {
            return;
        }
        std::optional<UnwindRule> found;
        if (frame.place.rule->cfa == UnwindRule::Cfa::kNone || frame.place.rule->by_code) {
            found = rule_without_table(words, code, registers, frame);
            if (!found) {
                stack.loss = Loss::kNoUnwind;
                return;
            }
        }
        const UnwindRule& rule = found ? *found : *frame.place.rule;
        if (rule.cfa == UnwindRule::Cfa::kEnd) {
            return;
        }
        Step step(words, rule, registers);
        const auto cfa = step.cfa();
        const auto caller = cfa ? step.caller(*cfa) : std::nullopt;
        if (!caller) {
            stack.loss = step.loss();
            return;
        }
        // Each frame lies above its callee, but for a signal handler on a stack of its own.
        if (*cfa <= frame.stack_pointer && !rule.signal) {
            stack.loss = Loss::kNoUnwind;
            return;
        }
        frame.cfa = *cfa;
        if (caller->get(Register::kReturn) == 0) {
            return;  // as clone(2) leaves it for a thread's first function
        }
        registers = *caller;
        is_return = !rule.signal;
    }
    stack.loss = Loss::kDepth;
}

}  // namespace

void unwind(StackCopy& words, CodeMap& code, RegisterSet registers, NativeStack& stack) {
    stack.frames.clear();
    go_on(words, code, registers, false, stack);
}

bool unwind_caller(StackCopy& words, CodeMap& code, Address cfa, const CodeMap::Place& place, NativeStack& stack) {
    if (place.table == nullptr || stack.frames.size() >= kMaxNativeFrames) {
        return false;
    }
    // What the function has saved lies at the same places all through its body.
    const RegisterSet unknown;
    Step step(words, *place.rule, unknown);
    const auto caller = step.caller(cfa);
    if (!caller || code.find(caller->get(Register::kReturn) - 1).table == nullptr) {
        return false;
    }
    go_on(words, code, *caller, true, stack);
    return true;
}

}  // namespace weft
