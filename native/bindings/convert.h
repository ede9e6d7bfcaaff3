// Conversions that several parts of the bindings need.
#pragma once

#include <nanobind/nanobind.h>

#include "python/code.h"
#include "python/layout.h"

namespace weft {

// A dict of the layout's field names; a field that is missing or None is absent. Throws nanobind::value_error for a
// name that no field has.
Layout to_layout(const nanobind::dict& fields);

// (kind, bytes, cut)
inline nanobind::tuple to_tuple(const Text& text) {
    return nanobind::make_tuple(text.kind, nanobind::bytes(text.bytes.data(), text.bytes.size()), text.cut);
}

// (id, first line, file name, name, qualified name, line table)
inline nanobind::tuple to_tuple(const CodeDefinition& code) {
    return nanobind::make_tuple(code.id, code.first_line, to_tuple(code.filename), to_tuple(code.name),
                                to_tuple(code.qualname),
                                nanobind::bytes(code.line_table.data(), code.line_table.size()));
}

}  // namespace weft
