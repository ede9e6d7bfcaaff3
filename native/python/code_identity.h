// Which code object it is. The interpreter frees them and uses their addresses, and those of their names, anew.
#pragma once

#include <array>
#include <cstdint>

#include "memory/memory.h"
#include "python/layout.h"
#include "python/loss.h"

namespace weft {

// What a code object says of itself, and where its texts are.
struct CodeHeader {
    Address type = 0;
    Address filename = 0;
    Address name = 0;
    Address qualname = 0;  // 0: the version has none
    Address line_table = 0;
    std::int32_t first_line = 0;
    std::int32_t first_traceable = 0;
    std::uint32_t version = 0;  // 0: it has none
};

// A code object at an earlier instant.
struct CodeIdentity {
    Address address = 0;
    std::uint64_t identity = 0;
    bool is_new = false;  // it was not seen before: it and its texts were told then
};

// Bytes of a code object, from its type on, that tell all that weft reads of it.
std::uint32_t code_header_size(const Layout& layout);

class CodeIdentifier {
   public:
    explicit CodeIdentifier(const Layout& layout);

    Loss read(Memory& memory, Address address, CodeHeader& header) const;

    // A number that no other code object at its address has had, as far as the interpreter tells them apart; never 0.
    Loss identify(Memory& memory, const CodeHeader& header, std::uint64_t& identity);

    // Texts may have changed since.
    void begin_sample() { ++sample_; }

   private:
    struct Marked {
        Address text = 0;
        bool is_str = false;  // it was taken for one
        std::uint64_t sample = 0;
        std::uint64_t mark = 0;
    };

    Loss mark_of(Memory& memory, Address text, bool is_str, std::uint64_t& mark);
    ReadResult add_characters(Memory& memory, Address text, bool is_str, std::uint64_t length,
                              std::uint64_t& mark) const;

    const Layout& layout_;
    std::uint32_t header_begin_;
    std::uint32_t header_size_;
    std::uint64_t sample_ = 1;
    std::array<Marked, 64> marks_{};  // of texts that several code objects name, file names above all
};

}  // namespace weft
