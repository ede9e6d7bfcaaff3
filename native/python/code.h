// Code objects of one process: read once when first seen, and identified whenever they are seen again, since the
// interpreter frees them and uses their addresses, and those of their names, anew.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/past.h"
#include "python/code_identity.h"
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

    // Code objects that were identified before this call are identified again when they are seen again. `told`, by their
    // addresses: those that were seen at an earlier instant; then `past` is what they are looked up in.
    void begin_sample(std::span<const CodeIdentity> told = {}, PastMemory* past = nullptr) {
        ++sample_;
        identifier_.begin_sample();
        defined_ = 0;
        told_ = told;
        past_ = past;
    }

    // Looks up those of `told` that are new: their texts are told once, and frames that are not reached may be of them.
    void learn();

    // Definitions since the last call.
    std::vector<CodeDefinition> take_definitions() { return std::exchange(definitions_, {}); }

    std::size_t size() const { return entries_.size(); }
    void clear() {
        entries_.clear();
        seen_.fill({});
    }

   private:
    struct Seen {
        Address address = 0;
        std::uint64_t sample = 0;  // in which it was identified
        const Entry* entry = nullptr;
    };
    static constexpr std::size_t kSeen = 512;  // a power of two; of two that share a place, the last one is remembered

    Seen& seen(Address address) { return seen_[(address >> 4 ^ address >> 13) & (kSeen - 1)]; }

    Loss look_up(Memory& memory, Address address, const Entry*& entry);
    std::uint64_t told_identity(Address address) const;
    Loss read_header(Memory& memory, Address address, CodeHeader& header) const;
    Loss read_identity(Memory& memory, Address address, CodeHeader& header, std::uint64_t& identity);
    Loss define(Memory& memory, const CodeHeader& header, Entry& entry, CodeDefinition& definition);

    const Layout& layout_;
    std::uint32_t& next_id_;
    CodeIdentifier identifier_;
    Address code_type_ = 0;                             // learned from the first code object
    std::unordered_map<std::uint64_t, Entry> entries_;  // by what identifies them, and their address
    std::array<Seen, kSeen> seen_;
    std::vector<CodeDefinition> definitions_;
    std::uint64_t sample_ = 1;
    std::size_t defined_ = 0;  // bytes of definitions in this sample
    std::span<const CodeIdentity> told_;
    PastMemory* past_ = nullptr;
};

}  // namespace weft
