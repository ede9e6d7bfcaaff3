#include "unwind/kernel_table.h"

#include "abi.h"

namespace weft {

namespace {

static_assert(WEFT_PRESERVED == kPreserved.size() && WEFT_REGISTERS == kRegisters);
static_assert(WEFT_CFA_NONE == static_cast<int>(UnwindRule::Cfa::kNone) &&
              WEFT_CFA_PLT == static_cast<int>(UnwindRule::Cfa::kPlt));

weft_saved packed(const Saved& saved) {
    const auto base = static_cast<std::uint16_t>(saved.base);
    switch (saved.where) {
        case Saved::Where::kSame: return {0, WEFT_SAME, 0};
        case Saved::Where::kAtCfa: return {saved.offset, WEFT_IN_MEMORY, WEFT_CFA};
        case Saved::Where::kAtRegister: return {saved.offset, WEFT_IN_MEMORY, base};
        case Saved::Where::kInRegister: return {0, WEFT_IN_REGISTER, base};
        case Saved::Where::kLost: break;
    }
    return {0, WEFT_LOST, 0};
}

// The number that stands for a rule of the form that most have (abi.h); 0: it is of another.
std::uint64_t fast(const UnwindRule& rule) {
    const bool by_rbp = rule.base == Register::kRbp;
    const Saved& rbp = rule.saved[1];
    static_assert(kPreserved[1] == Register::kRbp);
    const bool saved = rbp.where == Saved::Where::kAtCfa;
    const bool plain =
        rule.cfa == UnwindRule::Cfa::kRegister && (by_rbp || rule.base == Register::kRsp) && !rule.signal &&
        rule.return_address == UnwindRule{}.return_address &&
        (saved ? rbp.offset != 0 && rbp.offset == static_cast<std::int16_t>(rbp.offset) : rbp == Saved{});
    if (!plain) {
        return 0;
    }
    const auto rbp_at = static_cast<std::uint16_t>(saved ? rbp.offset : 0);
    return WEFT_FAST | (by_rbp ? WEFT_FAST_BY_RBP : 0) | static_cast<std::uint64_t>(rbp_at) << 32 |
           static_cast<std::uint32_t>(rule.offset);
}

}  // namespace

weft_rule packed(const UnwindRule& rule) {
    weft_rule result{};
    if (rule.by_code) {
        return result;  // it has to be tried first
    }
    result.fast = fast(rule);
    result.cfa = static_cast<std::uint8_t>(rule.cfa);
    result.base = static_cast<std::uint8_t>(rule.base);
    result.signal = rule.signal ? 1 : 0;
    result.offset = rule.offset;
    result.addend = rule.addend;
    for (std::size_t i = 0; i < kPreserved.size(); ++i) {
        result.saved[i] = packed(rule.saved[i]);
    }
    result.saved[WEFT_PRESERVED] = packed(rule.return_address);
    return result;
}

}  // namespace weft
