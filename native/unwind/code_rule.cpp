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

// Runs code that does nothing but adjust the stack, as far as its return.
class Straight {
   public:
    explicit Straight(std::span<const std::byte> code) : code_(code) {}

    std::optional<UnwindRule> run() {
        while (!begins_with(code_, {0xc3})) {  // ret
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
    bool step() {
        return skips({0xf3, 0x0f, 0x1e, 0xfa}) ||  // endbr64
               skips({0x90}) ||                    // nop
               calls() || pushes_or_pops() || adjusts() || enters() || leaves();
    }

    bool skips(std::initializer_list<std::uint8_t> bytes) {
        if (!begins_with(code_, bytes)) {
            return false;
        }
        code_ = code_.subspan(bytes.size());
        return true;
    }

    // What is called leaves the stack pointer and what must be preserved as they are.
    bool calls() {
        for (const std::size_t size : {2U, 3U, 5U}) {
            const bool direct = size == 5 && begins_with(code_, {0xe8});
            const bool by_register = size == 2 && begins_with(code_, {0xff}) && code_.size() > 1 &&
                                     (code_[1] & std::byte{0xf8}) == std::byte{0xd0};
            const bool by_high = size == 3 && begins_with(code_, {0x41, 0xff}) && code_.size() > 2 &&
                                 (code_[2] & std::byte{0xf8}) == std::byte{0xd0};
            if (code_.size() >= size && (direct || by_register || by_high)) {
                code_ = code_.subspan(size);
                return true;
            }
        }
        return false;
    }

    bool pushes_or_pops() {
        const std::size_t high = begins_with(code_, {0x41}) ? 1 : 0;
        if (code_.size() <= high) {
            return false;
        }
        const auto byte = std::to_integer<unsigned>(code_[high]);
        if (byte < 0x50 || byte > 0x5f) {
            return false;
        }
        const Register number = kByCode[(high * 8) + (byte & 7)];
        code_ = code_.subspan(high + 1);
        return byte < 0x58 ? push(number) : pop(number);
    }

    bool push(Register number) {
        depth_ -= kWord;
        pushed_[static_cast<std::size_t>(number)] = depth_;
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
        const bool byte = begins_with(code_, {0x48, 0x83});
        const std::size_t size = byte ? 4 : 7;
        if ((!byte && !begins_with(code_, {0x48, 0x81})) || code_.size() < size) {
            return false;
        }
        const auto what = std::to_integer<unsigned>(code_[2]);
        std::int32_t by = 0;
        if (byte) {
            by = (std::to_integer<std::int32_t>(code_[3]) ^ 0x80) - 0x80;  // its sign extended
        } else {
            std::memcpy(&by, &code_[3], sizeof by);
        }
        if ((what != 0xec && what != 0xc4) || by < -kMostStack || by > kMostStack) {
            return false;
        }
        depth_ += what == 0xc4 ? by : -by;  // add, sub
        code_ = code_.subspan(size);
        return true;
    }

    // mov %rsp,%rbp
    bool enters() {
        if (!skips({0x48, 0x89, 0xe5})) {
            return false;
        }
        frame_ = depth_;
        return true;
    }

    // mov %rbp,%rsp; pop %rbp
    bool leaves() {
        if (!skips({0xc9})) {
            return false;
        }
        rule_.base = frame_ ? rule_.base : Register::kRbp;
        depth_ = frame_.value_or(0);
        return pop(Register::kRbp);
    }

    std::span<const std::byte> code_;
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
        while (skips({0xf3, 0x0f, 0x1e, 0xfa}) || skips({0xc5, 0xf8, 0x77}) || pushes() || moves() || adjusts()) {
            rows.push_back({size_ - code_.size(), rule_});
        }
        return rows;
    }

   private:
    bool skips(std::initializer_list<std::uint8_t> bytes) {
        if (!begins_with(code_, bytes)) {
            return false;
        }
        code_ = code_.subspan(bytes.size());
        return true;
    }

    unsigned at(std::size_t index) const { return std::to_integer<unsigned>(code_[index]); }

    // Where a register was put first, it had its caller's value.
    void save(Register number, std::int32_t offset) {
        const auto index = static_cast<std::size_t>(std::ranges::find(kPreserved, number) - kPreserved.begin());
        if (index < kPreserved.size() && rule_.saved[index].where == Saved::Where::kSame && offset < -kWord) {
            rule_.saved[index] = {Saved::Where::kAtCfa, Register::kRsp, offset};
        }
    }

    bool pushes() {
        const std::size_t high = begins_with(code_, {0x41}) ? 1 : 0;
        if (code_.size() <= high || at(high) < 0x50 || at(high) > 0x57 || rule_.base != Register::kRsp) {
            return false;
        }
        const Register number = kByCode[(high * 8) + (at(high) & 7)];
        rule_.offset += kWord;
        save(number, -rule_.offset);
        code_ = code_.subspan(high + 1);
        return true;
    }

    // mov between a register and a word above rsp, or mov %rsp to a register.
    bool moves() {
        if (code_.size() < 8 || (at(0) != 0x48 && at(0) != 0x4c && at(0) != 0x49)) {
            return false;
        }
        const unsigned kind = at(1);
        const unsigned mode = at(2) >> 6;
        if (kind == 0x89 && at(0) != 0x4c && (at(2) & 0xf8) == 0xe0) {  // mov %rsp,reg
            copy_ = kByCode[(at(0) == 0x49 ? 8 : 0) + (at(2) & 7)];
            copied_ = rule_.offset;
            code_ = code_.subspan(3);
            return rule_.base == Register::kRsp;
        }
        if ((kind != 0x89 && kind != 0x8b) || at(0) == 0x49 || (at(2) & 7) != 4 || at(3) != 0x24 || mode == 3) {
            return false;
        }
        std::int32_t offset = 0;
        if (mode == 1) {
            offset = (std::to_integer<std::int32_t>(code_[4]) ^ 0x80) - 0x80;
        } else if (mode == 2) {
            std::memcpy(&offset, &code_[4], sizeof offset);
        }
        const Register number = kByCode[(at(0) == 0x4c ? 8 : 0) + (at(2) >> 3 & 7)];
        const bool overwrites = kind == 0x8b && (number == rule_.base || number == Register::kRsp || number == copy_);
        if (offset < 0 || offset > kMostStack || overwrites) {
            return false;
        }
        if (kind == 0x89 && rule_.base == Register::kRsp) {
            save(number, offset - rule_.offset);
        }
        code_ = code_.subspan(mode == 0 ? 4 : mode == 1 ? 5 : 8);
        return true;
    }

    // sub or and, of rsp. Behind an and only the copy tells where it was.
    bool adjusts() {
        const bool byte = begins_with(code_, {0x48, 0x83});
        const std::size_t size = byte ? 4 : 7;
        if ((!byte && !begins_with(code_, {0x48, 0x81})) || code_.size() < size || (at(2) != 0xec && at(2) != 0xe4)) {
            return false;
        }
        std::int32_t by = 0;
        if (byte) {
            by = (std::to_integer<std::int32_t>(code_[3]) ^ 0x80) - 0x80;
        } else {
            std::memcpy(&by, &code_[3], sizeof by);
        }
        if (at(2) == 0xe4) {
            if (!copy_) {
                return false;
            }
            rule_.base = *copy_;
            rule_.offset = copied_;
        } else if (by < 0 || by > kMostStack) {
            return false;
        } else if (rule_.base == Register::kRsp) {
            rule_.offset += by;
        }
        code_ = code_.subspan(size);
        return true;
    }

    std::span<const std::byte> code_;
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
