// Unwind rules by address, in a form that is small, quick to search, and the same on disk and in the kernel's maps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unwind/cfi.h"
#include "unwind/rule.h"

namespace weft {

// A function, and the bytes that it begins with.
struct FunctionCode {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::span<const std::byte> bytes;
};

// The rules of one module's code, by addresses in the module.
//
//   pages   one number for each 4 KiB of code: where its rows begin
//   rows    32 bits: the low 12 bits of the address from which on a rule holds, and the rule's number above them.
//           Each page has a row for its first byte, so that a search never leaves the page.
//   rules   the distinct ones; some hundreds for most modules
class UnwindTable {
   public:
    UnwindTable() = default;

    // Of functions that overlap, the one that comes first holds, and sections earlier in `sections` come first.
    static UnwindTable build(std::span<const CfiSection> sections);

    // This table and rules for functions that it knows nothing of, from their beginnings. By address; those that overlap others, or
    // what is known, are left out.
    UnwindTable with_functions(std::span<const FunctionCode> functions) const;

    // This table and the place where a program begins, of which it knows nothing: that is where stacks end.
    UnwindTable with_entry(std::uint64_t entry) const;

    // The rule that holds at an instruction.
    const UnwindRule& find(std::uint64_t address) const;

    bool knows(std::uint64_t address) const { return find(address).cfa != UnwindRule::Cfa::kNone; }

    const CfiLosses& losses() const { return losses_; }
    std::size_t rows() const { return rows_.size(); }
    const std::vector<UnwindRule>& rules() const { return rules_; }
    std::size_t bytes() const;  // of memory

    // Of no other table, in this process.
    std::uint32_t number() const { return number_; }

    // For the kernel (bpf/abi.h): the number of the first page, and of the first row of each page, with one more for the end.
    std::uint64_t first_page() const { return first_page_; }
    const std::vector<std::uint32_t>& first_rows() const { return pages_; }
    const std::vector<std::uint32_t>& all_rows() const { return rows_; }

    // As bytes, and from bytes; nothing if these are no table of this version, or damaged.
    std::string save() const;
    static std::optional<UnwindTable> load(std::string_view bytes);

   private:
    static constexpr unsigned kPageBits = 12;

    struct Addition;

    UnwindTable with(std::span<const Addition> additions, const RuleTable& rules) const;
    std::span<const std::uint32_t> rows_of(std::size_t page) const;
    bool knows_any(std::uint64_t begin, std::uint64_t end) const;
    void add(std::uint64_t address, std::uint32_t rule);
    bool is_sound() const;
    static std::uint32_t next_number();

    std::uint32_t number_ = next_number();
    std::uint64_t first_page_ = 0;
    std::vector<std::uint32_t> pages_;
    std::vector<std::uint32_t> rows_;
    std::vector<UnwindRule> rules_{UnwindRule{}};
    CfiLosses losses_;
};

}  // namespace weft
