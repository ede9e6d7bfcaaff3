#include "python/code_identity.h"

#include <algorithm>
#include <span>
#include <utility>

#include "abi.h"
#include "memory/past.h"
#include "python/fields.h"

namespace weft {

namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMarkBlock = 128;               // bytes that are read of a text at once: all of most
constexpr std::uint64_t kNoHash = ~std::uint64_t{0};  // it has not been computed yet

// Memory of which some was read already.
class Block final : public PastMemory {
   public:
    Block(Memory& memory, Address begin, std::span<const std::byte> bytes) : begin_(begin), bytes_(bytes) {
        PastMemory::begin(memory);
    }

   protected:
    std::span<const std::byte> told(Address address) const override {
        const Address into = address - begin_;
        return into < bytes_.size() ? bytes_.subspan(into) : std::span<const std::byte>();
    }

   private:
    Address begin_;
    std::span<const std::byte> bytes_;
};

}  // namespace

std::uint32_t code_header_size(const Layout& layout) {
    const std::uint32_t p = layout.pointer_size;
    const std::uint32_t end =
        std::max({end_of(layout.code_filename, p), end_of(layout.code_name, p), end_of(layout.code_qualname, p),
                  end_of(layout.code_firstlineno, 4), end_of(layout.code_linetable, p),
                  end_of(layout.code_firsttraceable, 4), end_of(layout.code_version, 4)});
    return std::min<std::uint32_t>(end > layout.object_type ? end - layout.object_type : 0, WEFT_CODE_BYTES);
}

CodeIdentifier::CodeIdentifier(const Layout& layout)
    : layout_(layout), header_begin_(layout.object_type), header_size_(code_header_size(layout)) {}

Loss CodeIdentifier::read(Memory& memory, Address address, CodeHeader& header) const {
    std::array<std::byte, WEFT_CODE_BYTES> bytes;
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
    return Loss::kNone;
}

// As the kernel's part does (bpf/code.h).
Loss CodeIdentifier::identify(Memory& memory, const CodeHeader& header, std::uint64_t& identity) {
    const auto first_line = static_cast<std::uint32_t>(header.first_line);
    identity = weft_mix(std::uint64_t{header.version} << 32 | first_line, 0);
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
Loss CodeIdentifier::mark_of(Memory& memory, Address text, bool is_str, std::uint64_t& mark) {
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
        Block rest(memory, begin, std::span(block).first(size));
        if (const Loss loss = to_loss(add_characters(rest, text, is_str, length, mark)); loss != Loss::kNone) {
            return loss;
        }
    }
    known = {text, is_str, sample_, mark};
    return Loss::kNone;
}

ReadResult CodeIdentifier::add_characters(Memory& memory, Address text, bool is_str, std::uint64_t length,
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

}  // namespace weft
