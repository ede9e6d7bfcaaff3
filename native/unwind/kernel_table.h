// Unwind tables in the form in which the kernel's walk reads them (bpf/abi.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unwind/rule.h"

struct weft_rule;

namespace weft {

// The same rule, packed. What the kernel cannot apply becomes the rule of code about which nothing is known: the walk goes on
// from there in user mode.
weft_rule packed(const UnwindRule& rule);

}  // namespace weft
