#include "symbols/symbol_table.h"

#include <algorithm>

namespace weft {

std::vector<std::size_t> SymbolTable::holding(std::span<const std::uint64_t> addresses) const {
    std::vector<std::size_t> indices;
    for (std::size_t index = 0; index < size(); ++index) {
        const Elf64_Sym symbol = (*this)[index];
        const auto first = std::ranges::lower_bound(addresses, symbol.st_value);
        if (first != addresses.end() && *first - symbol.st_value < symbol.st_size) {
            indices.push_back(index);
        }
    }
    return indices;
}

}  // namespace weft
