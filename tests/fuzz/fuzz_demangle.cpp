// libFuzzer over the names of C++: whatever the symbol, its name is none, or one of bounded length. test_fuzz_demangle.py
// builds and runs this; its seeds are symbols of real libraries.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "symbols/demangle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto name = weft::demangle("_Z" + std::string(reinterpret_cast<const char*>(data), size));
    if (name && name->size() > weft::kMaxDemangled) {
        std::abort();
    }
    return 0;
}
