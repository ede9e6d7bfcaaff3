#include "unwind/unwinder.h"

#include <algorithm>
#include <optional>

#include "python/fields.h"

namespace weft {

namespace {

// Words of the stack, fetched in runs: an unwinder goes from low addresses to high ones.
class Stack {
   public:
    explicit Stack(Memory& memory) : memory_(memory) {}

    std::optional<std::uint64_t> word(Address address) {
        const bool inside =
            address >= begin_ && size_ >= sizeof(std::uint64_t) && address - begin_ <= size_ - sizeof(std::uint64_t);
        if (!inside && !fetch(address)) {
            return std::nullopt;
        }
        std::uint64_t value = 0;
        std::memcpy(&value, bytes_.data() + (address - begin_), sizeof value);
        return value;
    }

    ReadResult result() const { return result_; }  // of the last word

   private:
    static constexpr std::size_t kWindow = 4096;

    // The stack may end within the window: then to the end of its page, then the word alone.
    bool fetch(Address address) {
        begin_ = address;
        for (const std::size_t size : {kWindow, kWindow - address % kWindow, sizeof(std::uint64_t)}) {
            result_ = size < sizeof(std::uint64_t) ? ReadResult::kUnmapped : memory_.read(address, bytes_.data(), size);
            if (result_ == ReadResult::kOk) {
                size_ = size;
                return true;
            }
        }
        size_ = 0;
        return false;
    }

    Memory& memory_;
    std::array<std::byte, kWindow> bytes_;
    Address begin_ = 0;
    std::size_t size_ = 0;
    ReadResult result_ = ReadResult::kOk;
};

// One frame: its registers, and what the rule that holds there makes of them.
class Step {
   public:
    Step(Stack& stack, const UnwindRule& rule, const RegisterSet& callee)
        : stack_(stack), rule_(rule), callee_(callee) {}

    Loss loss() const { return loss_; }

    std::optional<Address> cfa() {
        if (!callee_.has(rule_.base)) {
            return fail(Loss::kNoUnwind);
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

    Stack& stack_;
    const UnwindRule& rule_;
    const RegisterSet& callee_;
    Loss loss_ = Loss::kNone;
};

}  // namespace

void CodeMap::add(Address begin, Address end, Address bias, std::shared_ptr<const UnwindTable> table) {
    if (begin >= end) {
        return;
    }
    // What lies under it is cut off, before and behind.
    auto at = mappings_.lower_bound(begin);
    if (at != mappings_.begin()) {
        const auto before = std::prev(at);
        if (before->second.end > end) {
            mappings_[end] = before->second;
        }
        before->second.end = std::min(before->second.end, begin);
    }
    for (at = mappings_.lower_bound(begin); at != mappings_.end() && at->first < end; at = mappings_.erase(at)) {
        if (at->second.end > end) {
            mappings_[end] = at->second;
        }
    }
    mappings_[begin] = {end, bias, std::move(table)};
}

CodeMap::Place CodeMap::find(Address pc) const {
    const auto after = mappings_.upper_bound(pc);
    if (after == mappings_.begin()) {
        return {};
    }
    const Mapping& mapping = std::prev(after)->second;
    return pc < mapping.end ? Place{mapping.table.get(), pc - mapping.bias} : Place{};
}

void Unwinder::unwind(Memory& memory, const CodeMap& code, RegisterSet registers, NativeStack& stack) const {
    stack.frames.clear();
    stack.loss = Loss::kNone;
    Stack words(memory);
    bool is_return = false;
    while (stack.frames.size() < kMaxFrames) {
        const Address pc = registers.get(Register::kReturn);
        NativeFrame& frame = stack.frames.emplace_back();
        frame = {pc, registers.get(Register::kRsp), 0, is_return};
        // A call can be a function's last instruction: its return address is another function's then.
        const CodeMap::Place place = code.find(is_return ? pc - 1 : pc);
        if (place.table == nullptr) {
            stack.loss = Loss::kNoUnwind;
            return;
        }
        const UnwindRule& rule = place.table->find(place.address);
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

}  // namespace weft
