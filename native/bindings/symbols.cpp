// Symbols: those of a table that are wanted, and names of C++ functions.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"
#include "symbols/demangle.h"
#include "symbols/symbol_table.h"

namespace nb = nanobind;

namespace weft {

namespace {

std::vector<std::size_t> symbols_holding(const nb::bytes& table, const std::vector<std::uint64_t>& addresses) {
    return SymbolTable({table.c_str(), table.size()}).holding(addresses);
}

}  // namespace

void bind_symbols(nb::module_& module) {
    module.def("demangle", &demangle, nb::arg("symbol"));
    module.def("symbols_holding", &symbols_holding, nb::arg("table"), nb::arg("addresses"));
}

}  // namespace weft
