#include "bindings/bindings.h"

NB_MODULE(_native, module) {
    weft::bind_bpf(module);
    weft::bind_dump(module);
    weft::bind_memory(module);
    weft::bind_python(module);
    weft::bind_runs(module);
    weft::bind_unwind(module);  // before what takes its types
    weft::bind_sampler(module);
    weft::bind_demangle(module);
}
