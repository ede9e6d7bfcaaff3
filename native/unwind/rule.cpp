#include "unwind/rule.h"

#include <utility>

namespace weft {

namespace {

void mix(std::uint64_t& hash, std::uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL; }

void mix(std::uint64_t& hash, const Saved& saved) {
    mix(hash, static_cast<std::uint64_t>(saved.where) << 40 | static_cast<std::uint64_t>(saved.base) << 32 |
                  static_cast<std::uint32_t>(saved.offset));
}

}  // namespace

std::size_t RuleTable::Hash::operator()(const UnwindRule& rule) const {
    std::uint64_t hash =
        static_cast<std::uint64_t>(rule.cfa) << 16 | static_cast<std::uint64_t>(rule.base) << 8 | (rule.signal ? 1 : 0);
    mix(hash, static_cast<std::uint64_t>(static_cast<std::uint32_t>(rule.offset)) << 32 |
                  static_cast<std::uint32_t>(rule.addend));
    mix(hash, rule.return_address);
    for (const Saved& saved : rule.saved) {
        mix(hash, saved);
    }
    return hash ^ hash >> 32;
}

RuleTable::RuleTable(std::vector<UnwindRule> rules) : rules_(std::move(rules)) {
    for (std::uint32_t number = 0; number < rules_.size(); ++number) {
        numbers_.emplace(rules_[number], number);
    }
}

std::uint32_t RuleTable::intern(const UnwindRule& rule) {
    if (rules_.size() == kMax) {
        const auto known = numbers_.find(rule);
        return known == numbers_.end() ? 0 : known->second;
    }
    const auto [known, is_new] = numbers_.try_emplace(rule, static_cast<std::uint32_t>(rules_.size()));
    if (is_new) {
        rules_.push_back(rule);
    }
    return known->second;
}

}  // namespace weft
