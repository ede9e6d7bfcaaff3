// Names of C++ functions.
#include "symbols/demangle.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "bindings/bindings.h"

namespace nb = nanobind;

namespace weft {

void bind_demangle(nb::module_& module) { module.def("demangle", &demangle, nb::arg("symbol")); }

}  // namespace weft
