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
    // `functions`: such that no section tells of, whose beginnings are read; they must not overlap others.
    // `entry`: where a program begins; without CFI there, that is where its stacks end.
    static UnwindTable build(std::span<const CfiSection> sections, std::span<const FunctionCode> functions = {},
                             std::optional<std::uint64_t> entry = std::nullopt);

    // The rule that holds at an instruction.
    const UnwindRule& find(std::uint64_t address) const;

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

    void fill(const Cfi& cfi, const std::vector<const CfiFunction*>& functions);
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
