#include "symbols/demangle.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <utility>

// Of libc++abi, as it comes with zig. Its __cxa_demangle() is the same, but writes names of any length: a symbol of 270
// characters can stand for gigabytes, and where these are not to be had, it ends the process.
#include <demangle/ItaniumDemangle.h>

namespace {

// Behind a local name, which of several it is: `_` and a digit, `__` and a number and `_`, or digits up to the end. It is not
// told. The parser declares this function and leaves it to its user.
const char* itanium_demangle::parse_discriminator(const char* first, const char* last) {
    const std::string_view rest(first, static_cast<std::size_t>(last - first));
    const auto digits_end = [&](std::size_t begin) {
        return std::min(rest.find_first_not_of("0123456789", begin), rest.size());
    };
    if (rest.starts_with("__")) {
        const std::size_t end = digits_end(2);
        return end < rest.size() && rest[end] == '_' ? first + end + 1 : first;
    }
    if (rest.starts_with('_')) {
        return digits_end(1) > 1 ? first + 2 : first;
    }
    return digits_end(0) == rest.size() ? last : first;
}

}  // namespace

namespace weft {

namespace {

constexpr std::size_t kMaxNodes = 1 << 16;  // that are written: some may stand for nothing at all

// As the parser wants it: nodes are not destroyed.
class Arena {
   public:
    void reset() { memory_.release(); }
    template <typename T, typename... Arguments>
    T* makeNode(Arguments&&... arguments) {  // NOLINT(readability-identifier-naming): the parser's name for it
        return new (memory_.allocate(sizeof(T), alignof(T))) T(std::forward<Arguments>(arguments)...);
    }
    void* allocateNodeArray(std::size_t count) {  // NOLINT(readability-identifier-naming)
        return memory_.allocate(count * sizeof(void*));
    }

   private:
    std::pmr::monotonic_buffer_resource memory_;
};

// Writes as much of a name as is wanted.
class Text final : public itanium_demangle::OutputBuffer {
   public:
    Text() = default;
    Text(const Text&) = delete;
    Text& operator=(const Text&) = delete;
    ~Text() override { std::free(getBuffer()); }

    bool is_whole() const { return nodes_ <= kMaxNodes && getCurrentPosition() <= kMaxDemangled; }

    void printLeft(const itanium_demangle::Node& node) override {
        if (goes_on()) {
            OutputBuffer::printLeft(node);
        }
    }
    void printRight(const itanium_demangle::Node& node) override {
        if (goes_on()) {
            OutputBuffer::printRight(node);
        }
    }

   private:
    bool goes_on() {
        ++nodes_;
        return is_whole();
    }

    std::size_t nodes_ = 0;
};

}  // namespace

std::optional<std::string> demangle(std::string_view symbol) {
    if (symbol.size() > kMaxMangled) {
        return std::nullopt;
    }
    itanium_demangle::ManglingParser<Arena> parser(symbol.data(), symbol.data() + symbol.size());
    const itanium_demangle::Node* name = parser.parse();
    if (name == nullptr) {
        return std::nullopt;
    }
    Text text;
    name->print(text);
    return text.is_whole() ? std::optional<std::string>(std::string_view(text)) : std::nullopt;
}

}  // namespace weft
