// How a caller's registers are found from its callee's, at one place of the code. x86-64.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace weft {

// By their DWARF numbers (System V ABI for AMD64, figure 3.36).
enum class Register : std::uint8_t {
    kRax,
    kRdx,
    kRcx,
    kRbx,
    kRsi,
    kRdi,
    kRbp,
    kRsp,
    kR8,
    kR9,
    kR10,
    kR11,
    kR12,
    kR13,
    kR14,
    kR15,
    kReturn,  // the return address
};
inline constexpr std::size_t kRegisters = 17;

// A thread's registers as far as they are known. kReturn is its pc.
struct RegisterSet {
    std::array<std::uint64_t, kRegisters> values{};
    std::uint32_t known = 0;  // a bit for each

    bool has(Register number) const { return (known >> static_cast<unsigned>(number) & 1) != 0; }
    std::uint64_t get(Register number) const { return values[static_cast<std::size_t>(number)]; }
    void set(Register number, std::uint64_t value) {
        values[static_cast<std::size_t>(number)] = value;
        known |= 1U << static_cast<unsigned>(number);
    }
};

// What a function must preserve, and what signal frames hold: of the others no caller's value is ever asked for.
inline constexpr std::array kPreserved = {Register::kRbx, Register::kRbp, Register::kR12,
                                          Register::kR13, Register::kR14, Register::kR15};

// Where the value lies that a register had in the caller.
struct Saved {
    enum class Where : std::uint8_t {
        kSame,        // it still has it
        kAtCfa,       // in memory, at CFA + offset
        kAtRegister,  // in memory, at the callee's `base` + offset
        kInRegister,  // in the callee's `base`
        kLost,
    };
    Where where = Where::kSame;
    Register base = Register::kRsp;
    std::int32_t offset = 0;

    bool operator==(const Saved&) const = default;
};

struct UnwindRule {
    // How the CFA, the stack pointer's value before the call, is found.
    enum class Cfa : std::uint8_t {
        kNone,      // nothing is known of this code
        kEnd,       // nobody has called it: the outermost frame
        kRegister,  // base + offset
        kDeref,     // *(base + offset) + addend
        kPlt,       // base + offset, and 8 more from the byte `addend` of each 16 bytes of code on (the lazy PLT)
    };
    Cfa cfa = Cfa::kNone;
    Register base = Register::kRsp;
    bool signal = false;   // a signal frame: what it interrupted has not called it
    bool by_code = false;  // read from the function's beginning: it need not hold to its end
    std::int32_t offset = 0;
    std::int32_t addend = 0;
    Saved return_address{Saved::Where::kAtCfa, Register::kRsp, -8};
    std::array<Saved, kPreserved.size()> saved{};

    bool operator==(const UnwindRule&) const = default;
};

// Distinct rules by number. Number 0 is the rule of code about which nothing is known, and of those that find no room.
class RuleTable {
   public:
    static constexpr std::size_t kMax = 1 << 18;  // libtorch has some thousands

    RuleTable() : RuleTable({UnwindRule{}}) {}
    explicit RuleTable(std::vector<UnwindRule> rules);  // distinct

    std::uint32_t intern(const UnwindRule& rule);
    const std::vector<UnwindRule>& rules() const { return rules_; }

   private:
    struct Hash {
        std::size_t operator()(const UnwindRule& rule) const;
    };
    std::unordered_map<UnwindRule, std::uint32_t, Hash> numbers_;
    std::vector<UnwindRule> rules_;
};

}  // namespace weft
