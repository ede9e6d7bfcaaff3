// Names of C++ functions as people write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft {

// Characters of a symbol, as deep as whose types it may nest; and of a name, which can double with each five of a symbol.
inline constexpr std::size_t kMaxMangled = 4096;
inline constexpr std::size_t kMaxDemangled = 1 << 16;

// Nothing for what is no symbol of C++, or beyond these.
std::optional<std::string> demangle(std::string_view symbol);

}  // namespace weft
