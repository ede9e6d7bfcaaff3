// Call frame information: .eh_frame and .debug_frame (DWARF 5, 6.4; Linux Standard Base 5.0, 10.6).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "unwind/cursor.h"
#include "unwind/rule.h"

namespace weft {

// From `offset` on, until the function's next row.
struct CfiRow {
    std::uint32_t offset = 0;  // in the function
    std::uint32_t rule = 0;    // its number
};

struct CfiSection {
    Bytes bytes;
    std::uint64_t address = 0;  // of the first byte, in the module
    bool eh = true;             // .eh_frame; else .debug_frame
};

// A common information entry: what many functions' entries share.
struct Cie {
    const CfiSection* section = nullptr;
    std::uint64_t code_factor = 1;
    std::int64_t data_factor = 1;
    std::uint64_t return_register = 0;
    std::uint8_t encoding = 0;  // of the addresses in its FDEs
    bool augmented = false;
    bool signal = false;
    Cursor program{{}, 0};

    // A factored offset; nonsense wraps around.
    std::int64_t scaled(std::uint64_t value) const {
        return static_cast<std::int64_t>(value * static_cast<std::uint64_t>(data_factor));
    }
};

struct CfiFunction {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    const Cie* cie = nullptr;
    std::uint32_t program = 0;  // where its own part of the program lies, in bytes of its section
    std::uint32_t program_size = 0;
};

// What was met and could not be used.
struct CfiLosses {
    std::uint64_t functions = 0;    // whose entry is damaged, or of an unknown version
    std::uint64_t expressions = 0;  // rows whose rule is of a form that no compiler is known to make
    std::uint64_t overlaps = 0;     // functions that begin within another
};

// The functions that sections tell of. Each one's rows are made when they are asked for, so that those of a large library are not
// all in memory beside the table that is made of them.
class Cfi {
   public:
    // The sections' bytes must outlive it. Of each, the first 4 GiB are read.
    explicit Cfi(std::span<const CfiSection> sections);
    Cfi(const Cfi&) = delete;
    Cfi& operator=(const Cfi&) = delete;

    // By their addresses; of those that begin at one, such of sections that come first. They are not trusted, and may overlap.
    const std::vector<CfiFunction>& functions() const { return functions_; }

    // A function's rows, with offsets in any order, and beyond its end, where the program is nonsense; none, with a loss, if it is
    // damaged. They are there until the next call, which must have the same rules.
    std::span<const CfiRow> rows_of(const CfiFunction& function, RuleTable& rules);

    const CfiLosses& losses() const { return losses_; }

   private:
    // A program that has run. Most functions of a library have one that others have, too.
    struct Ran {
        const Cie* cie = nullptr;  // null: it holds for its function alone
        Bytes program;
        std::vector<CfiRow> rows;       // none, if it is damaged
        std::uint64_t expressions = 0;  // losses
    };

    std::deque<Cie> cies_;  // those that can be used
    std::vector<Ran> ran_;  // by their bytes
    std::vector<CfiFunction> functions_;
    CfiLosses losses_;
};

}  // namespace weft
