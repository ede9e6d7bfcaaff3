// weft._native: what Python sees of the C++ side. Its types are told in src/weft/_native.pyi.
#pragma once

#include <nanobind/nanobind.h>

namespace weft {

void bind_bpf(nanobind::module_& module);
void bind_dump(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_python(nanobind::module_& module);
void bind_runs(nanobind::module_& module);
void bind_sampler(nanobind::module_& module);
void bind_unwind(nanobind::module_& module);
void bind_symbols(nanobind::module_& module);

}  // namespace weft
