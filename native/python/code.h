// Code objects of one process: read once when first seen, and identified whenever they are seen again, since the
// interpreter frees them and uses their addresses, and those of their names, anew.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/past.h"
#include "python/layout.h"
#include "python/loss.h"

namespace weft {

// A string of the target, undecoded: `kind` bytes a character (1 Latin-1, 2 UTF-16, 4 UTF-32), 0 for bytes of Python 2.
struct Text {
    std::uint32_t kind = 1;
    std::string bytes;
    bool cut = false;  // it was longer than weft reads
};

// What a code object says of itself.
struct CodeDefinition {
    std::uint32_t id = 0;
    std::int32_t first_line = 0;
    Text filename;
    Text name;
    Text qualname;  // empty where the version has none
    std::string line_table;
};

Loss read_text(Memory& memory, const Layout& layout, Address object, std::size_t max_characters, Text& text);

// The bytes of a bytes object (str in Python 2).
Loss read_bytes(Memory& memory, const Layout& layout, Address object, std::size_t max_size, std::string& bytes);

// Which code object was at an address: a number that no other one there has had, as far as the interpreter tells them apart.
struct CodeIdentity {
    Address address = 0;
    std::uint64_t identity = 0;
};

// Bytes of a code object, from its type on, that tell all that weft reads of it.
std::uint32_t code_header_size(const Layout& layout);

class CodeTable {
   public:
    struct Entry {
        std::uint32_t id = 0;
        std::int32_t first_traceable =
            0;                    // byte offset of the first instruction that a frame that has started can be at
        bool trampoline = false;  // the interpreter's own `__init__` shim, 3.13 on
    };

    // `next_id` numbers the definitions, and is shared by all tables of a recording. Both must outlive the table.
    CodeTable(const Layout& layout, std::uint32_t& next_id);

    // The code object at `address`, or null and why not. The pointer holds until the next call.
    const Entry* lookup(Memory& memory, Address address, Loss& loss);

    // Code objects that were identified before this call are identified again when they are seen again. `told`, by their addresses: those
    // that were seen at an earlier instant; then `past` is what they are looked up in.
    void begin_sample(std::span<const CodeIdentity> told = {}, PastMemory* past = nullptr) {
        ++sample_;
        defined_ = 0;
        told_ = told;
        past_ = past;
    }

    // Looks up the code objects that `past` tells: they are told once, and frames that are not reached may be of them.
    void learn();

    // Definitions since the last call.
    std::vector<CodeDefinition> take_definitions() { return std::exchange(definitions_, {}); }

    std::size_t size() const { return entries_.size(); }
    void clear() {
        entries_.clear();
        seen_.clear();
    }

   private:
    struct Header {
        Address type = 0;
        Address filename = 0;
        Address name = 0;
        Address qualname = 0;  // 0: the version has none
        Address line_table = 0;
        std::int32_t first_line = 0;
        std::int32_t first_traceable = 0;
        std::uint32_t version = 0;  // 0: it has none
    };
    struct Seen {
        std::uint64_t sample = 0;  // in which it was last identified
        const Entry* entry = nullptr;
    };

    struct Marked {
        Address text = 0;
        bool is_str = false;  // it was taken for one
        std::uint64_t sample = 0;
        std::uint64_t mark = 0;
    };

    Loss look_up(Memory& memory, Address address, const Entry*& entry);
    std::uint64_t told_identity(Address address) const;
    Loss read_header(Memory& memory, Address address, Header& header) const;
    Loss read_identity(Memory& memory, Address address, Header& header, std::uint64_t& identity);
    Loss mark_of(Memory& memory, Address text, bool is_str, std::uint64_t& mark);
    ReadResult add_characters(Memory& memory, Address text, bool is_str, std::uint64_t length,
                              std::uint64_t& mark) const;
    Loss define(Memory& memory, const Header& header, Entry& entry, CodeDefinition& definition);

    const Layout& layout_;
    std::uint32_t& next_id_;
    std::uint32_t header_begin_;
    std::uint32_t header_size_;
    Address code_type_ = 0;                             // learned from the first code object
    std::unordered_map<std::uint64_t, Entry> entries_;  // by what identifies them, and their address
    std::unordered_map<Address, Seen> seen_;
    std::array<Marked, 64> marks_{};  // of texts that several code objects name, file names above all
    std::vector<CodeDefinition> definitions_;
    std::uint64_t sample_ = 1;
    std::size_t defined_ = 0;  // bytes of definitions in this sample
    std::span<const CodeIdentity> told_;
    PastMemory* past_ = nullptr;
};

}  // namespace weft
