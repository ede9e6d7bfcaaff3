// The kernel's part of collector bpf, compiled (bpf/), as bytes of this module.

#include <cstdint>

#include "abi.h"
#include "bindings/bindings.h"

// What `asm` names must be seen from C++ as it is.
extern "C" const char weft_bpf_object[];
extern "C" const std::uint64_t weft_bpf_object_size;
asm(".pushsection .rodata\n"
    ".hidden weft_bpf_object\n"
    ".hidden weft_bpf_object_size\n"
    ".globl weft_bpf_object\n"
    ".globl weft_bpf_object_size\n"
    "weft_bpf_object: .incbin \"" WEFT_BPF_OBJECT
    "\"\n"
    "1: .balign 8\n"
    "weft_bpf_object_size: .quad 1b - weft_bpf_object\n"
    ".popsection\n");

namespace nb = nanobind;

namespace weft {

void bind_bpf(nb::module_& module) {
    module.attr("BPF_OBJECT") = nb::bytes(weft_bpf_object, weft_bpf_object_size);
    module.attr("BPF_MAPPINGS") = static_cast<int>(WEFT_MAPPINGS);
    module.attr("BPF_PAGES") = static_cast<int>(WEFT_PAGES);
    module.attr("BPF_ROWS") = static_cast<int>(WEFT_ROWS);
    module.attr("BPF_CHUNK") = static_cast<int>(WEFT_CHUNK);
    module.attr("BPF_OVERLAP") = static_cast<int>(WEFT_OVERLAP);
    module.attr("BPF_PLACES") = static_cast<int>(WEFT_PLACES);
    module.attr("BPF_BYTES_A_SAMPLE") = static_cast<int>(WEFT_BYTES_A_SAMPLE);
    module.attr("BPF_RULES") = static_cast<int>(WEFT_RULES);
}

}  // namespace weft
