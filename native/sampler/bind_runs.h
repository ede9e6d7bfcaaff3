#pragma once

#include <nanobind/nanobind.h>

namespace weft {

void bind_runs(nanobind::module_& module);

}  // namespace weft
