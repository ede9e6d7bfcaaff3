#include "unwind/code_rule.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace weft {

namespace {

constexpr std::int32_t kWord = 8;
constexpr std::int32_t kMostStack = 1 << 20;  // that one instruction takes or gives

// In the order of their numbers in instructions (Intel 64 manual, volume 2, table 3-1).
constexpr std::array kByCode = {Register::kRax, Register::kRcx, Register::kRdx, Register::kRbx,
                                Register::kRsp, Register::kRbp, Register::kRsi, Register::kRdi,
                                Register::kR8,  Register::kR9,  Register::kR10, Register::kR11,
                                Register::kR12, Register::kR13, Register::kR14, Register::kR15};

bool begins_with(std::span<const std::byte> code, std::initializer_list<std::uint8_t> bytes) {
    return code.size() >= bytes.size() &&
           std::ranges::equal(code.first(bytes.size()), bytes,
                              [](std::byte have, std::uint8_t want) { return std::to_integer<int>(have) == want; });
}

// Code that is read from its beginning, instruction by instruction.
class Code {
   public:
    explicit Code(std::span<const std::byte> bytes) : bytes_(bytes) {}

    std::size_t size() const { return bytes_.size(); }
    unsigned at(std::size_t index) const { return std::to_integer<unsigned>(bytes_[index]); }
    bool begins(std::initializer_list<std::uint8_t> bytes) const { return begins_with(bytes_, bytes); }
    void take(std::size_t size) { bytes_ = bytes_.subspan(size); }

    bool skips(std::initializer_list<std::uint8_t> bytes) {
        const bool is_next = begins(bytes);
        if (is_next) {
            take(bytes.size());
        }
        return is_next;
    }

    template <typename Operand>
    struct Instruction {
        Operand operand;
        std::size_t size;
    };

    // An instruction of one byte, `opcode` and the number of a register: push 0x50, pop 0x58.
    std::optional<Instruction<Register>> on_register(unsigned opcode) const {
        const std::size_t high = begins({0x41}) ? 1 : 0;
        if (size() <= high || (at(high) & 0xf8) != opcode) {
            return std::nullopt;
        }
        return Instruction<Register>{kByCode[(high * 8) + (at(high) & 7)], high + 1};
    }

    // An instruction on the stack pointer with an immediate operand: add 0xc4, and 0xe4, sub 0xec.
    std::optional<Instruction<std::int32_t>> on_stack_pointer(unsigned operation) const {
        const bool byte = begins({0x48, 0x83});
        const std::size_t length = byte ? 4 : 7;
        if ((!byte && !begins({0x48, 0x81})) || size() < length || at(2) != operation) {
            return std::nullopt;
        }
        return Instruction<std::int32_t>{byte ? signed_byte(3) : signed_word(3), length};
    }

    std::int32_t signed_byte(std::size_t index) const { return (static_cast<std::int32_t>(at(index)) ^ 0x80) - 0x80; }
    std::int32_t signed_word(std::size_t index) const {
        std::int32_t value = 0;
        std::memcpy(&value, &bytes_[index], sizeof value);
        return value;
    }

   private:
    std::span<const std::byte> bytes_;
};

// Runs code that does nothing but adjust the stack, as far as its return.
class Straight {
   public:
    explicit Straight(std::span<const std::byte> code) : code_(code) {}

    std::optional<UnwindRule> run() {
        while (!leaves_it()) {
            if (!step()) {
                return std::nullopt;
            }
        }
        rule_.cfa = UnwindRule::Cfa::kRegister;
        rule_.offset = depth_ + kWord;
        for (Saved& saved : rule_.saved) {
            if (saved.where == Saved::Where::kAtCfa) {
                saved.offset -= rule_.offset;  // from the base until here
            }
        }
        return rule_;
    }

   private:
    // By a return, or by a jump through an address in memory, as the entries of a procedure linkage table do. (lld tells nothing
    // of those in .eh_frame.)
    bool leaves_it() const {
        return code_.begins({0xc3}) ||            // ret
               code_.begins({0xff, 0x25}) ||      // jmp *disp(%rip)
               code_.begins({0xf2, 0xff, 0x25});  // bnd jmp *disp(%rip)
    }

    bool step() {
        return code_.skips({0xf3, 0x0f, 0x1e, 0xfa}) ||  // endbr64
               code_.skips({0x90}) ||                    // nop
               calls() || pushes() || pops() || adjusts() || enters() || leaves();
    }

    // What is called leaves the stack pointer and what must be preserved as they are.
    bool calls() {
        for (const std::size_t size : {2U, 3U, 5U}) {
            const bool direct = size == 5 && code_.begins({0xe8});
            const bool by_register =
                size == 2 && code_.begins({0xff}) && code_.size() > 1 && (code_.at(1) & 0xf8) == 0xd0;
            const bool by_high =
                size == 3 && code_.begins({0x41, 0xff}) && code_.size() > 2 && (code_.at(2) & 0xf8) == 0xd0;
            if (code_.size() >= size && (direct || by_register || by_high)) {
                code_.take(size);
                return true;
            }
        }
        return false;
    }

    bool pushes() {
        const auto push = code_.on_register(0x50);
        if (!push) {
            return false;
        }
        code_.take(push->size);
        depth_ -= kWord;
        pushed_[static_cast<std::size_t>(push->operand)] = depth_;
        return true;
    }

    bool pops() {
        const auto instruction = code_.on_register(0x58);
        if (!instruction || !pop(instruction->operand)) {
            return false;
        }
        code_.take(instruction->size);
        return true;
    }

    bool pop(Register number) {
        const auto index = static_cast<std::size_t>(std::ranges::find(kPreserved, number) - kPreserved.begin());
        const bool own = depth_ < 0 && rule_.base == Register::kRsp;  // what was pushed in this very run
        const bool same = own && pushed_[static_cast<std::size_t>(number)] == depth_;
        if (index < kPreserved.size()) {
            rule_.saved[index] = same ? Saved{} : Saved{Saved::Where::kAtCfa, Register::kRsp, depth_};  // from the base
        }
        depth_ += kWord;
        return number != Register::kRsp && own == same;
    }

    bool adjusts() {
        const auto add = code_.on_stack_pointer(0xc4);
        const auto sub = code_.on_stack_pointer(0xec);
        const auto& taken = add ? add : sub;
        if (!taken || taken->operand < -kMostStack || taken->operand > kMostStack) {
            return false;
        }
        code_.take(taken->size);
        depth_ += add ? add->operand : -taken->operand;
        return true;
    }

    // mov %rsp,%rbp
    bool enters() {
        if (!code_.skips({0x48, 0x89, 0xe5})) {
            return false;
        }
        frame_ = depth_;
        return true;
    }

    // mov %rbp,%rsp; pop %rbp
    bool leaves() {
        if (!code_.skips({0xc9})) {
            return false;
        }
        rule_.base = frame_ ? rule_.base : Register::kRbp;
        depth_ = frame_.value_or(0);
        return pop(Register::kRbp);
    }

    Code code_;
    UnwindRule rule_;
    std::int32_t depth_ = 0;                         // of the stack pointer, from the base
    std::array<std::int32_t, kRegisters> pushed_{};  // where each was pushed
    std::optional<std::int32_t> frame_;              // where the frame pointer that was made in this run points
};

// Runs the beginning of a function. Hand-written kernels make room, save registers into it, and may align the stack pointer,
// of which they keep the old value in a register.
class Prologue {
   public:
    explicit Prologue(std::span<const std::byte> code) : code_(code), size_(code.size()) {
        rule_.cfa = UnwindRule::Cfa::kRegister;
        rule_.offset = kWord;
        rule_.by_code = true;
    }

    std::vector<PrologueRow> run() {
        std::vector<PrologueRow> rows{{0, rule_}};
        while (step()) {
            rows.push_back({size_ - code_.size(), rule_});
        }
        return rows;
    }

   private:
    bool step() {
        return code_.skips({0xf3, 0x0f, 0x1e, 0xfa}) ||  // endbr64
               code_.skips({0xc5, 0xf8, 0x77}) ||        // vzeroupper
               pushes() || moves() || makes_room() || aligns();
    }

    // Where a register was put first, it had its caller's value.
    void save(Register number, std::int32_t offset) {
        const auto index = static_cast<std::size_t>(std::ranges::find(kPreserved, number) - kPreserved.begin());
        if (index < kPreserved.size() && rule_.saved[index].where == Saved::Where::kSame && offset < -kWord) {
            rule_.saved[index] = {Saved::Where::kAtCfa, Register::kRsp, offset};
        }
    }

    bool pushes() {
        const auto push = code_.on_register(0x50);
        if (!push || rule_.base != Register::kRsp) {
            return false;
        }
        code_.take(push->size);
        rule_.offset += kWord;
        save(push->operand, -rule_.offset);
        return true;
    }

    // mov between a register and a word above rsp, or mov %rsp to a register.
    bool moves() {
        if (code_.size() < 8 || (code_.at(0) != 0x48 && code_.at(0) != 0x4c && code_.at(0) != 0x49)) {
            return false;
        }
        const unsigned prefix = code_.at(0);
        const unsigned kind = code_.at(1);
        const unsigned operands = code_.at(2);
        if (kind == 0x89 && prefix != 0x4c && (operands & 0xf8) == 0xe0) {  // mov %rsp,reg
            if (rule_.base != Register::kRsp) {
                return false;
            }
            copy_ = kByCode[(prefix == 0x49 ? 8 : 0) + (operands & 7)];
            copied_ = rule_.offset;
            code_.take(3);
            return true;
        }
        const unsigned mode = operands >> 6;
        const bool on_stack = (operands & 7) == 4 && code_.at(3) == 0x24 && mode != 3;
        if ((kind != 0x89 && kind != 0x8b) || prefix == 0x49 || !on_stack) {
            return false;
        }
        const std::int32_t offset = mode == 0 ? 0 : mode == 1 ? code_.signed_byte(4) : code_.signed_word(4);
        const Register number = kByCode[(prefix == 0x4c ? 8 : 0) + (operands >> 3 & 7)];
        const bool overwrites = kind == 0x8b && (number == rule_.base || number == Register::kRsp || number == copy_);
        if (offset < 0 || offset > kMostStack || overwrites) {
            return false;
        }
        if (kind == 0x89 && rule_.base == Register::kRsp) {
            save(number, offset - rule_.offset);
        }
        code_.take(mode == 0 ? 4 : mode == 1 ? 5 : 8);
        return true;
    }

    bool makes_room() {
        const auto sub = code_.on_stack_pointer(0xec);
        if (!sub || sub->operand < 0 || sub->operand > kMostStack) {
            return false;
        }
        code_.take(sub->size);
        rule_.offset += rule_.base == Register::kRsp ? sub->operand : 0;
        return true;
    }

    // Behind an and only the copy tells where the stack pointer was.
    bool aligns() {
        const auto align = code_.on_stack_pointer(0xe4);
        if (!align || !copy_) {
            return false;
        }
        code_.take(align->size);
        rule_.base = *copy_;
        rule_.offset = copied_;
        return true;
    }

    Code code_;
    std::size_t size_;
    UnwindRule rule_;
    std::optional<Register> copy_;  // of the stack pointer
    std::int32_t copied_ = 0;       // how far the CFA lies above it
};

}  // namespace

std::vector<PrologueRow> rules_of_prologue(std::span<const std::byte> code) { return Prologue(code).run(); }

std::optional<UnwindRule> rule_of_code(std::span<const std::byte> code) { return Straight(code).run(); }

UnwindRule rule_by_frame_pointer(std::span<const std::byte> code, bool is_return) {
    UnwindRule rule;
    rule.cfa = UnwindRule::Cfa::kRegister;
    const bool begins = begins_with(code, {0x55}) || begins_with(code, {0xf3, 0x0f, 0x1e, 0xfa, 0x55});
    if (!is_return && begins) {  // push %rbp
        rule.offset = kWord;
        return rule;
    }
    rule.offset = 2 * kWord;
    // mov %rsp,%rbp is still to come
    rule.base = !is_return && begins_with(code, {0x48, 0x89, 0xe5}) ? Register::kRsp : Register::kRbp;
    for (std::size_t i = 0; i < kPreserved.size(); ++i) {
        rule.saved[i].where = Saved::Where::kLost;
        if (kPreserved[i] == Register::kRbp) {
            rule.saved[i] = {Saved::Where::kAtCfa, Register::kRsp, -2 * kWord};
        }
    }
    return rule;
}

// e8 rel32, or ff with /2: by a register or a word of memory, whose address takes up to five bytes more (Intel 64 manual,
// volume 2, CALL and table 2-2). A prefix before it does not matter.
bool ends_in_call(std::span<const std::byte> code) {
    const auto at = [&](std::size_t from_end) { return std::to_integer<unsigned>(code[code.size() - from_end]); };
    if (code.size() >= 5 && at(5) == 0xe8) {
        return true;
    }
    for (const std::size_t size : {2U, 3U, 4U, 6U, 7U}) {
        if (code.size() < size || at(size) != 0xff || (at(size - 1) >> 3 & 7) != 2) {
            continue;
        }
        const unsigned mode = at(size - 1) >> 6;
        const unsigned base = at(size - 1) & 7;
        const bool indexed = mode != 3 && base == 4;
        const bool without_base = mode == 0 && (base == 5 || (indexed && size > 2 && (at(size - 2) & 7) == 5));
        const std::size_t more = mode == 1 ? 1 : mode == 2 || without_base ? 4 : 0;
        if (size == 2 + (indexed ? 1U : 0U) + more) {
            return true;
        }
    }
    return false;
}

}  // namespace weft
