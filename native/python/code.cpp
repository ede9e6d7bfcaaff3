#include "python/code.h"

#include <algorithm>
#include <array>

#include "abi.h"
#include "python/fields.h"

namespace weft {

namespace {

constexpr std::size_t kMaxName = 4096;          // characters
constexpr std::size_t kMaxLineTable = 4 << 20;  // bytes
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

CodeTable::CodeTable(const Layout& layout, std::uint32_t& next_id)
    : layout_(layout), next_id_(next_id), identifier_(layout) {}

const CodeTable::Entry* CodeTable::lookup(Memory& memory, Address address, Loss& loss) {
    Seen& known = seen(address);
    if (known.address != address || known.sample != sample_) {
        known = {};
        const Entry* entry = nullptr;
        loss = look_up(memory, address, entry);
        if (loss != Loss::kNone) {
            return nullptr;
        }
        known = {address, sample_, entry};
    }
    loss = Loss::kNone;
    return known.entry;
}

void CodeTable::learn() {
    // Not before one is known: what a frame names may be something else.
    for (const CodeIdentity& code : code_type_ != 0 ? told_ : std::span<const CodeIdentity>()) {
        if (code.is_new) {
            Loss loss = Loss::kNone;
            lookup(*past_, code.address, loss);
        }
    }
}

Loss CodeTable::look_up(Memory& memory, Address address, const Entry*& entry) {
    CodeHeader header;
    std::uint64_t identity = told_identity(address);
    const bool is_told = identity != 0;
    if (!is_told) {
        if (const Loss loss = read_identity(memory, address, header, identity); loss != Loss::kNone) {
            return loss;
        }
    }
    const std::uint64_t key = weft_mix(identity, address);
    if (const auto found = entries_.find(key); found != entries_.end()) {
        entry = &found->second;
        return Loss::kNone;
    }
    const std::uint64_t read_before = past_ != nullptr ? past_->reads_of_now() : 0;
    const auto read_late = [&] { return is_told && past_ != nullptr && past_->reads_of_now() != read_before; };
    if (is_told) {
        if (const Loss loss = read_header(memory, address, header); loss != Loss::kNone) {
            return read_late() ? Loss::kCodeGone : loss;
        }
    }
    Entry fresh;
    CodeDefinition definition;
    Loss loss = define(memory, header, fresh, definition);
    if (read_late()) {
        // What was read as it is now is the code object's if that is still there.
        std::uint64_t now = 0;
        identifier_.begin_sample();  // what it remembers may be of then
        const bool is_there = read_identity(past_->now(), address, header, now) == Loss::kNone && now == identity;
        loss = is_there ? loss : Loss::kCodeGone;
    }
    if (loss != Loss::kNone) {
        return loss;
    }
    definition.id = fresh.id = next_id_++;
    definitions_.push_back(std::move(definition));
    entry = &(entries_[key] = fresh);
    return Loss::kNone;
}

std::uint64_t CodeTable::told_identity(Address address) const {
    const auto found = std::ranges::lower_bound(told_, address, {}, &CodeIdentity::address);
    return found != told_.end() && found->address == address ? found->identity : 0;
}

Loss CodeTable::read_header(Memory& memory, Address address, CodeHeader& header) const {
    const Loss loss = identifier_.read(memory, address, header);
    const bool is_code = code_type_ == 0 || header.type == code_type_;
    return loss == Loss::kNone && !is_code ? Loss::kNotCode : loss;
}

Loss CodeTable::read_identity(Memory& memory, Address address, CodeHeader& header, std::uint64_t& identity) {
    const Loss loss = read_header(memory, address, header);
    return loss == Loss::kNone ? identifier_.identify(memory, header, identity) : loss;
}

Loss CodeTable::define(Memory& memory, const CodeHeader& header, Entry& entry, CodeDefinition& definition) {
    if (defined_ > kMaxDefined) {
        return Loss::kDepth;
    }
    definition.first_line = header.first_line;
    Loss loss = read_text(memory, layout_, header.filename, kMaxName, definition.filename);
    if (loss == Loss::kNone) {
        loss = read_text(memory, layout_, header.name, kMaxName, definition.name);
    }
    if (loss == Loss::kNone && header.qualname != 0) {
        loss = read_text(memory, layout_, header.qualname, kMaxName, definition.qualname);
    }
    if (loss == Loss::kNone) {
        loss = read_bytes(memory, layout_, header.line_table, kMaxLineTable, definition.line_table);
    }
    defined_ += kDefinitionSize + definition.line_table.size() + definition.filename.bytes.size() +
                definition.name.bytes.size() + definition.qualname.bytes.size();
    if (loss != Loss::kNone) {
        return loss;
    }
    entry.first_traceable = std::clamp(header.first_traceable, 0, kMaxUnits) * kCodeUnit;
    code_type_ = header.type;
    // _Py_InitCleanup (Python/specialize.c, 3.13): a static code object whose file is its name.
    entry.trampoline = header.filename == header.name && definition.name.bytes == kTrampoline;
    return loss;
}

}  // namespace weft
