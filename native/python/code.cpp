#include "python/code.h"

#include <algorithm>
#include <array>

#include "abi.h"
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
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMarkBlock = 128;               // bytes that are read of a text at once: all of most
constexpr std::uint64_t kNoHash = ~std::uint64_t{0};  // it has not been computed yet

// Memory of which some was read already.
class PartlyRead final : public Memory {
   public:
    PartlyRead(Memory& memory, Address begin, std::span<const std::byte> bytes)
        : memory_(memory), begin_(begin), bytes_(bytes) {}

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override {
        const Address into = address - begin_;
        if (into > bytes_.size() || size > bytes_.size() - into) {
            return memory_.read(address, to, size);
        }
        std::ranges::copy(bytes_.subspan(into, size), static_cast<std::byte*>(to));
        return ReadResult::kOk;
    }

   private:
    Memory& memory_;
    Address begin_;
    std::span<const std::byte> bytes_;
};

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
    header_begin_ = layout.object_type;
    header_size_ = std::min<std::uint32_t>(code_header_size(layout), kMaxHeader);
}

std::uint32_t code_header_size(const Layout& layout) {
    const std::uint32_t p = layout.pointer_size;
    const std::uint32_t end =
        std::max({end_of(layout.code_filename, p), end_of(layout.code_name, p), end_of(layout.code_qualname, p),
                  end_of(layout.code_firstlineno, 4), end_of(layout.code_linetable, p),
                  end_of(layout.code_firsttraceable, 4), end_of(layout.code_version, 4)});
    return end > layout.object_type ? end - layout.object_type : 0;
}

const CodeTable::Entry* CodeTable::lookup(Memory& memory, Address address, Loss& loss) {
    Seen& seen = seen_[address];
    if (seen.sample != sample_) {
        seen = {sample_, nullptr};
        loss = look_up(memory, address, seen.entry);
        if (loss != Loss::kNone) {
            seen_.erase(address);
            return nullptr;
        }
    }
    loss = Loss::kNone;
    return seen.entry;
}

void CodeTable::learn() {
    // Not before one is known: what a frame names may be something else.
    for (const CodeIdentity& code : code_type_ != 0 ? told_ : std::span<const CodeIdentity>()) {
        if (past_->holds(code.address + header_begin_)) {
            Loss loss = Loss::kNone;
            lookup(*past_, code.address, loss);
        }
    }
}

Loss CodeTable::look_up(Memory& memory, Address address, const Entry*& entry) {
    Header header;
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
        marks_.fill({});  // they may be of then
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

Loss CodeTable::read_header(Memory& memory, Address address, Header& header) const {
    std::array<std::byte, kMaxHeader> bytes;
    if (const Loss loss = to_loss(memory.read(address + header_begin_, bytes.data(), header_size_));
        loss != Loss::kNone) {
        return loss;
    }
    const Fields fields(bytes.data(), header_size_, layout_.pointer_size);
    const auto pointer = [&](std::uint32_t offset) {
        return present(offset) ? fields.pointer(offset - header_begin_) : 0;
    };
    const auto number = [&](std::uint32_t offset) {
        return present(offset) ? fields.get<std::int32_t>(offset - header_begin_) : 0;
    };
    header.type = pointer(layout_.object_type);
    header.filename = pointer(layout_.code_filename);
    header.name = pointer(layout_.code_name);
    header.qualname = pointer(layout_.code_qualname);
    header.line_table = pointer(layout_.code_linetable);
    header.first_line = number(layout_.code_firstlineno);
    header.first_traceable = number(layout_.code_firsttraceable);
    header.version = static_cast<std::uint32_t>(number(layout_.code_version));
    return code_type_ == 0 || header.type == code_type_ ? Loss::kNone : Loss::kNotCode;
}

// As the kernel's part does (bpf/python.h).
Loss CodeTable::read_identity(Memory& memory, Address address, Header& header, std::uint64_t& identity) {
    if (const Loss loss = read_header(memory, address, header); loss != Loss::kNone) {
        return loss;
    }
    identity = weft_mix(header.version, static_cast<std::uint32_t>(header.first_line));
    const bool is_str = layout_.names_are_bytes == 0;
    const std::array<std::pair<Address, bool>, WEFT_TEXTS> texts{
        {{header.name, is_str}, {header.qualname, is_str}, {header.filename, is_str}, {header.line_table, false}}};
    for (const auto& [text, text_is_str] : texts) {
        identity = weft_mix(identity, text);
        if (header.version == 0 && text != 0) {
            std::uint64_t mark = 0;
            if (const Loss loss = mark_of(memory, text, text_is_str, mark); loss != Loss::kNone) {
                return loss;
            }
            identity = weft_mix(identity, mark);
        }
    }
    identity |= 1;  // 0: none
    return Loss::kNone;
}

// What tells a text from others that had its address: its length, and its hash, which is behind it (PyASCIIObject.hash,
// PyBytesObject.ob_shash, PyStringObject.ob_shash). Names have one if they are interned; else the first characters are compared,
// up to the end of a page: what is behind that may not be resident.
Loss CodeTable::mark_of(Memory& memory, Address text, bool is_str, std::uint64_t& mark) {
    Marked& known = marks_[text / sizeof(Address) % marks_.size()];
    if (known.text == text && known.is_str == is_str && known.sample == sample_) {
        mark = known.mark;
        return Loss::kNone;
    }
    const std::uint32_t p = layout_.pointer_size;
    const Address begin = text + layout_.bytes_length;
    std::array<std::byte, kMarkBlock> block{};
    std::size_t size = block.size();
    if (memory.read(begin, block.data(), size) != ReadResult::kOk) {
        size = std::size_t{2} * p;
        if (const Loss loss = to_loss(memory.read(begin, block.data(), size)); loss != Loss::kNone) {
            return loss;
        }
    }
    const Fields fields(block.data(), size, p);
    const std::uint64_t length = fields.pointer(0);
    mark = weft_mix(length, fields.pointer(p));
    if (fields.pointer(p) == kNoHash >> (64 - 8 * p)) {
        PartlyRead rest(memory, begin, std::span(block).first(size));
        if (const Loss loss = to_loss(add_characters(rest, text, is_str, length, mark)); loss != Loss::kNone) {
            return loss;
        }
    }
    known = {text, is_str, sample_, mark};
    return Loss::kNone;
}

ReadResult CodeTable::add_characters(Memory& memory, Address text, bool is_str, std::uint64_t length,
                                     std::uint64_t& mark) const {
    Address data = text + layout_.bytes_data;
    if (is_str) {
        std::uint32_t state = 0;
        if (const ReadResult result = memory.read(text + layout_.str_state, &state, sizeof state);
            result != ReadResult::kOk) {
            return result;
        }
        state >>= layout_.str_kind_shift & 31;
        data = text + ((state & 16) != 0 ? layout_.str_ascii_data : layout_.str_compact_data);
        length *= state & 7;
    }
    std::array<std::uint64_t, WEFT_MARK> words{};
    const std::uint64_t rest = (kPageBytes - data % kPageBytes) / sizeof words[0];
    const std::size_t count =
        std::min({length / sizeof words[0] + (length % sizeof words[0] != 0), rest, words.size()});
    const ReadResult result = memory.read(data, words.data(), count * sizeof words[0]);
    for (const std::uint64_t word : std::span(words).first(count)) {
        mark = weft_mix(mark, word);
    }
    return result;
}

Loss CodeTable::define(Memory& memory, const Header& header, Entry& entry, CodeDefinition& definition) {
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
