#include "sampler/kernel_process.h"

#include <algorithm>

#include "python/code_identity.h"
#include "python/fields.h"
#include "python/runtime.h"

namespace weft {

namespace {

static_assert(WEFT_ABSENT == kAbsent);
constexpr std::uint32_t kMaxThread = 1 << 10;  // bytes, as much as one piece has

weft_python python_of(const PythonPlace& place) {
    const Layout& layout = place.layout;
    const std::uint32_t p = layout.pointer_size;
    weft_python python{};
    python.interpreters_head = place.addresses.interpreters_head;
    python.current_state = place.addresses.current_state;
    python.main_follows =
        present(layout.interp_id) ? 1 : 0;  // in _PyRuntime, which is since 3.7 (struct pyinterpreters)
    python.interp_next = layout.interp_next;
    python.interp_threads_head = layout.interp_threads_head;
    python.thread_next = layout.thread_next;
    python.thread_pthread = layout.thread_pthread;
    python.thread_size = std::min(Runtime(layout, place.addresses).thread_read_size(), kMaxThread);
    python.thread_frame = layout.thread_frame;
    python.thread_cframe = layout.thread_cframe;
    python.cframe_frame = layout.cframe_frame;
    python.cframe_previous = layout.cframe_previous;
    if (present(layout.cframe_frame)) {
        const std::uint32_t end = std::max(end_of(layout.cframe_frame, p), end_of(layout.cframe_previous, p));
        python.cframe_size = end - layout.cframe_frame;
        // In 3.11 they are the anchors. In 3.12 two tell whether the newest activation is linked.
        python.cframes = present(layout.frame_owner_shim) ? 2 : WEFT_MOST_PYTHON;
    }
    python.frame_previous = layout.frame_previous;
    python.frame_size = layout.frame_size;
    python.frame_owner = present(layout.frame_owner_shim) ? layout.frame_owner : kAbsent;
    python.frame_owner_shim = layout.frame_owner_shim;
    python.current_thread = place.addresses.current_thread;
    python.thread_interp = layout.thread_interp;
    python.interp_gil = layout.interp_gil;
    python.gil_size = std::max(end_of(layout.gil_last_holder, p), end_of(layout.gil_locked, 4));
    // Code objects; their fields from where the bytes begin that are told of them.
    const auto in_code = [&](std::uint32_t offset) { return present(offset) ? offset - layout.object_type : kAbsent; };
    python.frame_code = layout.frame_code;
    python.frame_code_tags = layout.frame_code_tags;
    python.code_begin = layout.object_type;
    python.code_size = code_header_size(layout);
    python.code_version = in_code(layout.code_version);
    python.code_firstlineno = in_code(layout.code_firstlineno);
    python.code_text[WEFT_NAME] = in_code(layout.code_name);
    python.code_text[WEFT_QUALNAME] = in_code(layout.code_qualname);
    python.code_text[WEFT_FILENAME] = in_code(layout.code_filename);
    python.code_text[WEFT_LINE_TABLE] = in_code(layout.code_linetable);
    const auto in_text = [&](std::uint32_t offset) { return present(offset) ? offset - layout.bytes_length : kAbsent; };
    python.text_length = layout.bytes_length;
    python.str_state = in_text(layout.str_state);
    python.str_kind_shift = layout.str_kind_shift;
    python.str_ascii_data = in_text(layout.str_ascii_data);
    python.str_compact_data = in_text(layout.str_compact_data);
    python.bytes_data = in_text(layout.bytes_data);
    return python;
}

}  // namespace

weft_process kernel_process(const CodeMap& code, const PythonPlace* place, bool switches) {
    weft_process process{};
    process.sampled = 1;
    process.switches = switches ? 1 : 0;
    for (const CodeMap::Mapped& mapped : code.mapped()) {
        if (process.mappings < WEFT_MAPPINGS) {
            process.mapping[process.mappings++] = {mapped.begin, mapped.end, mapped.bias, mapped.table->number(), 0};
        }
    }
    if (place == nullptr) {
        return process;
    }
    process.python = python_of(*place);
    // Up to 3.10 (weave/weave.h).
    process.anchors_are_values =
        !present(place->layout.frame_owner_shim) && !present(place->layout.frame_is_entry) ? 1 : 0;
    for (const auto& [begin, end] : code.eval_loops()) {
        if (process.eval_loops < WEFT_EVAL_LOOPS) {
            process.eval_loop[process.eval_loops++] = {begin, end};
        }
    }
    return process;
}

}  // namespace weft
