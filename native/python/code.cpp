#include "python/code.h"

#include <algorithm>
#include <array>

#include "python/fields.h"

namespace weft {

namespace {

constexpr std::size_t kMaxName = 4096;          // characters
constexpr std::size_t kMaxLineTable = 4 << 20;  // bytes
constexpr std::size_t kMaxHeader = 512;         // bytes of a code object
// Bytes of definitions in one sample. A program that has more to tell, if it is not made to fill our memory, tells the
// rest in its next samples.
constexpr std::size_t kMaxDefined = 16 << 20;
constexpr std::size_t kDefinitionSize = 256;  // what one takes at least
constexpr std::int32_t kCodeUnit = 2;         // bytes of _Py_CODEUNIT
constexpr std::int32_t kMaxUnits = 1 << 27;   // more than any code has
constexpr std::string_view kTrampoline = "__init__";

Loss read_into(Memory& memory, Address address, std::size_t size, std::string& bytes) {
    bytes.resize(size);
    return size == 0 ? Loss::kNone : to_loss(memory.read(address, bytes.data(), size));
}

}  // namespace

Loss read_bytes(Memory& memory, const Layout& layout, Address object, std::size_t max_size, std::string& bytes) {
    Address size = 0;
    if (const Loss loss = read_pointer(memory, layout, object + layout.bytes_length, size); loss != Loss::kNone) {
        return loss;
    }
    if (size > max_size) {
        return Loss::kNotCode;
    }
    return read_into(memory, object + layout.bytes_data, size, bytes);
}

Loss read_text(Memory& memory, const Layout& layout, Address object, std::size_t max_characters, Text& text) {
    if (layout.names_are_bytes == 1) {
        text.kind = 0;
        return read_bytes(memory, layout, object, max_characters, text.bytes);
    }
    std::array<std::byte, 64> bytes;
    const std::uint32_t size =
        std::min<std::uint32_t>(bytes.size(), std::max(layout.str_state + 4, layout.str_length + layout.pointer_size));
    if (const Loss loss = to_loss(memory.read(object, bytes.data(), size)); loss != Loss::kNone) {
        return loss;
    }
    const Fields fields(bytes.data(), size, layout.pointer_size);
    const auto state = fields.get<std::uint32_t>(layout.str_state) >> (layout.str_kind_shift & 31);
    // PyASCIIObject.state: kind is 3 bits wide, then compact, then ascii (Include/cpython/unicodeobject.h).
    text.kind = state & 7;
    const bool compact = (state & 8) != 0;
    const bool ascii = (state & 16) != 0;
    if (text.kind != 1 && text.kind != 2 && text.kind != 4) {
        return Loss::kNotCode;
    }
    std::size_t length = fields.pointer(layout.str_length);
    text.cut = length > max_characters;
    length = std::min(length, max_characters);
    Address data = object + (ascii ? layout.str_ascii_data : layout.str_compact_data);
    if (!compact) {
        if (const Loss loss = read_pointer(memory, layout, object + layout.str_data_pointer, data);
            loss != Loss::kNone) {
            return loss;
        }
    }
    return read_into(memory, data, length * text.kind, text.bytes);
}

CodeTable::CodeTable(const Layout& layout, std::uint32_t& next_id) : layout_(layout), next_id_(next_id) {
    const std::uint32_t p = layout.pointer_size;
    header_begin_ = layout.object_type;
    const std::uint32_t end = std::max({end_of(layout.code_filename, p), end_of(layout.code_name, p),
                                        end_of(layout.code_qualname, p), end_of(layout.code_firstlineno, 4),
                                        end_of(layout.code_linetable, p), end_of(layout.code_firsttraceable, 4)});
    header_size_ = std::min<std::uint32_t>(end > header_begin_ ? end - header_begin_ : 0, kMaxHeader);
}

const CodeTable::Entry* CodeTable::lookup(Memory& memory, Address address, Loss& loss) {
    Known& known = entries_[address];
    if (known.sample == sample_) {
        return &known.entry;
    }
    std::array<std::byte, kMaxHeader> bytes;
    loss = to_loss(memory.read(address + header_begin_, bytes.data(), header_size_));
    if (loss != Loss::kNone) {
        entries_.erase(address);
        return nullptr;
    }
    const Fields fields(bytes.data(), header_size_, layout_.pointer_size);
    const auto pointer = [&](std::uint32_t offset) { return fields.pointer(offset - header_begin_); };
    const Address name = pointer(layout_.code_name);
    const Address line_table = pointer(layout_.code_linetable);
    const auto first_line = fields.get<std::int32_t>(layout_.code_firstlineno - header_begin_);
    const Address type = pointer(layout_.object_type);
    if (code_type_ != 0 && type != code_type_) {
        entries_.erase(address);
        loss = Loss::kNotCode;
        return nullptr;
    }
    if (known.entry.id == 0 || known.name != name || known.line_table != line_table || known.first_line != first_line) {
        known = {};
        known.name = name;
        known.line_table = line_table;
        known.first_line = first_line;
        if (present(layout_.code_firsttraceable)) {
            const auto index = fields.get<std::int32_t>(layout_.code_firsttraceable - header_begin_);
            known.entry.first_traceable = std::clamp(index, 0, kMaxUnits) * kCodeUnit;
        }
        const Address qualname = present(layout_.code_qualname) ? pointer(layout_.code_qualname) : 0;
        loss = define(memory, known, pointer(layout_.code_filename), qualname);
        if (loss != Loss::kNone) {
            entries_.erase(address);
            return nullptr;
        }
        code_type_ = type;
    }
    known.sample = sample_;
    return &known.entry;
}

Loss CodeTable::define(Memory& memory, Known& known, Address filename, Address qualname) {
    if (defined_ > kMaxDefined) {
        return Loss::kDepth;
    }
    CodeDefinition definition;
    definition.first_line = known.first_line;
    Loss loss = read_text(memory, layout_, filename, kMaxName, definition.filename);
    if (loss == Loss::kNone) {
        loss = read_text(memory, layout_, known.name, kMaxName, definition.name);
    }
    if (loss == Loss::kNone && qualname != 0) {
        loss = read_text(memory, layout_, qualname, kMaxName, definition.qualname);
    }
    if (loss == Loss::kNone) {
        loss = read_bytes(memory, layout_, known.line_table, kMaxLineTable, definition.line_table);
    }
    if (loss != Loss::kNone) {
        return loss;
    }
    // _Py_InitCleanup (Python/specialize.c, 3.13): a static code object whose file is its name.
    known.entry.trampoline = filename == known.name && definition.name.bytes == kTrampoline;
    definition.id = known.entry.id = next_id_++;
    defined_ += kDefinitionSize + definition.line_table.size() + definition.filename.bytes.size() +
                definition.name.bytes.size() + definition.qualname.bytes.size();
    definitions_.push_back(std::move(definition));
    return Loss::kNone;
}

}  // namespace weft
