// What the kernel's walk has to know of a process (bpf/abi.h).
#pragma once

#include "abi.h"
#include "sampler/target.h"
#include "unwind/code_map.h"

namespace weft {

// `place`: where its Python is; null: it has none. `native`: native stacks are wanted; `switches`: those of threads
// that leave their CPU, too.
weft_process kernel_process(const CodeMap& code, const PythonPlace* place, bool switches);

}  // namespace weft
