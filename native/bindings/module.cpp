#include <malloc.h>

#include "bindings/bindings.h"

namespace {

// glibc keeps what is freed for later: up to 64 MB once a block of 32 MB was freed (mallopt(3), M_MMAP_THRESHOLD). Unwind tables
// of large libraries are made with such blocks, once.
void give_large_blocks_back() {
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

}  // namespace

NB_MODULE(_native, module) {
    weft::bind_bpf(module);
    weft::bind_dump(module);
    weft::bind_memory(module);
    weft::bind_python(module);
    weft::bind_runs(module);
    weft::bind_unwind(module);  // before what takes its types
    weft::bind_sampler(module);
    weft::bind_symbols(module);
    module.def("give_large_blocks_back", &give_large_blocks_back);
}
