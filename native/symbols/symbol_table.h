// The symbol tables of ELF files, of which large libraries have half a million entries (System V ABI, Elf64_Sym).
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace weft {

class SymbolTable {
   public:
    // What follows the last whole entry is left out. The bytes must outlive it.
    explicit SymbolTable(std::string_view bytes) : bytes_(bytes) {}

    std::size_t size() const { return bytes_.size() / sizeof(Elf64_Sym); }

    Elf64_Sym operator[](std::size_t index) const {
        Elf64_Sym symbol;
        std::memcpy(&symbol, bytes_.data() + index * sizeof symbol, sizeof symbol);
        return symbol;
    }

    // The indices of those that hold one of these addresses, which are in order.
    std::vector<std::size_t> holding(std::span<const std::uint64_t> addresses) const;

   private:
    std::string_view bytes_;
};

}  // namespace weft
