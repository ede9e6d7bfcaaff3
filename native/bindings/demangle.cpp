// Names of C++ functions.
#include <cxxabi.h>
#include <nanobind/stl/string.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "bindings/bindings.h"

namespace nb = nanobind;

namespace weft {

namespace {

// The name itself if it is none of C++.
std::string demangle(const std::string& name) {
    int status = 0;
    struct Free {
        void operator()(char* text) const { std::free(text); }
    };
    const std::unique_ptr<char, Free> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status));
    return status == 0 && text ? std::string(text.get()) : name;
}

}  // namespace

void bind_demangle(nb::module_& module) { module.def("demangle", &demangle, nb::arg("name")); }

}  // namespace weft
