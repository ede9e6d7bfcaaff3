// Call frame information: .eh_frame and .debug_frame (DWARF 5, 6.4; Linux Standard Base 5.0, 10.6).
#pragma once

#include <cstdint>
#include <vector>

#include "unwind/cursor.h"
#include "unwind/rule.h"

namespace weft {

// From `address` on, until the function's next row.
struct CfiRow {
    std::uint32_t offset = 0;  // in the function
    std::uint32_t rule = 0;    // its number
};

struct CfiFunction {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::size_t first_row = 0;
    std::size_t rows = 0;
};

struct CfiSection {
    Bytes bytes;
    std::uint64_t address = 0;  // of the first byte, in the module
    bool eh = true;             // .eh_frame; else .debug_frame
};

// What was met and could not be used.
struct CfiLosses {
    std::uint64_t functions = 0;    // whose entry is damaged, or of an unknown version
    std::uint64_t expressions = 0;  // rows whose rule is of a form that no compiler is known to make
    std::uint64_t overlaps = 0;     // functions that begin within another
};

// All functions, in the order of their entries. The entries are not trusted: they may overlap.
struct Cfi {
    std::vector<CfiFunction> functions;
    std::vector<CfiRow> rows;
    RuleTable rules;
    CfiLosses losses;
};

void read_cfi(const CfiSection& section, Cfi& cfi);

}  // namespace weft
