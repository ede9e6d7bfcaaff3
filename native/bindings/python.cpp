#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "memory/limited.h"
#include "python/code.h"
#include "python/frames.h"
#include "python/runtime.h"
#include "weave/weave.h"

namespace nb = nanobind;

namespace weft {

namespace {

const std::map<std::string_view, std::uint32_t Layout::*>& layout_fields() {
    static const std::map<std::string_view, std::uint32_t Layout::*> fields = {
#define WEFT_FIELD(name) {#name, &Layout::name},
        WEFT_LAYOUT_FIELDS(WEFT_FIELD)
#undef WEFT_FIELD
    };
    return fields;
}

// Reads the threads of one runtime out of any memory, once: for dumps, core files, proofs and tests.
class PythonReader {
   public:
    using State = std::tuple<Address, Address, Address>;  // address, interpreter, pthread

    PythonReader(nb::object memory, const nb::dict& layout, const RuntimeAddresses& addresses)
        : owner_(std::move(memory)),
          memory_(nb::cast<Memory&>(owner_)),
          runtime_(to_layout(layout), addresses),
          codes_(runtime_.layout(), next_code_),
          walker_(runtime_),
          weaver_(runtime_.layout()) {}

    // ([(address, interpreter, interpreter id, pthread, native id)], loss)
    nb::tuple threads() {
        Threads threads;
        const Loss loss = runtime_.list(begin_look(), threads);
        nb::list rows;
        for (const ThreadState& state : threads.states) {
            rows.append(
                nb::make_tuple(state.address, state.interpreter, state.interpreter_id, state.pthread, state.native_id));
        }
        return nb::make_tuple(rows, kLossNames[static_cast<std::size_t>(loss)]);
    }

    // The addresses of thread states that hold a GIL.
    nb::list gil_holders() {
        Threads threads;
        Memory& memory = begin_look();
        static_cast<void>(runtime_.list(memory, threads));
        nb::list holders;
        for (const Interpreter& interpreter : threads.interpreters) {
            if (const Address holder = runtime_.gil_holder(memory, interpreter); holder != 0) {
                holders.append(holder);
            }
        }
        return holders;
    }

    // ([(code, instruction, incomplete)] innermost first, loss, anchor)
    nb::tuple stack(Address address, Address interpreter, Address pthread) {
        const PythonStack stack = walk({address, interpreter, pthread});
        nb::list frames;
        for (const PythonFrame& frame : stack.frames) {
            frames.append(nb::make_tuple(frame.code, frame.instruction, frame.incomplete));
        }
        return nb::make_tuple(frames, kLossNames[static_cast<std::size_t>(stack.loss)], stack.anchor);
    }

    // The stacks of thread states (address, interpreter, pthread), which belong to one thread, innermost first, laid into
    // its native stack: ([(kind, ...)] innermost first, the native stack's loss, whether that tells that there are Python
    // frames, and none were found). What follows the kind is
    //   0  index of the Python frame, in the stacks put together
    //   1  module, address in it, proof, by frame pointer
    //   2  loss
    nb::tuple weave(const std::vector<State>& states, CodeMap& code, const RegisterSet& registers) {
        PythonStack python;
        for (const State& state : states) {
            python.append(walk(state));
        }
        StackCopy words;
        words.begin(begin_look(), registers.get(Register::kRsp));
        NativeStack native;
        native.loss = Loss::kNoRegisters;
        if (registers.has(Register::kReturn)) {
            unwind(words, code, registers, native);
        }
        const Loss loss = native.loss;
        WovenStack woven;
        weaver_.weave(python, native, code, words, woven);
        nb::list frames;
        for (const WovenFrame& frame : woven.frames) {
            const int kind = static_cast<int>(frame.kind);
            switch (frame.kind) {
                case WovenFrame::Kind::kPython: frames.append(nb::make_tuple(kind, frame.index)); break;
                case WovenFrame::Kind::kNative: {
                    const NativeFrame& at = native.frames[frame.index];
                    const Address address = at.place.module != 0 ? at.place.address : at.lookup();
                    frames.append(nb::make_tuple(kind, at.place.module, address, static_cast<int>(frame.proof),
                                                 at.by_frame_pointer));
                    break;
                }
                case WovenFrame::Kind::kMarker: frames.append(nb::make_tuple(kind, kLossNames[frame.index])); break;
            }
        }
        return nb::make_tuple(frames, kLossNames[static_cast<std::size_t>(loss)], woven.lacks_python);
    }

    // Code objects that stacks since the last call have named for the first time.
    nb::list codes() {
        nb::list rows;
        for (const CodeDefinition& code : codes_.take_definitions()) {
            rows.append(to_tuple(code));
        }
        return rows;
    }

   private:
    PythonStack walk(const State& from) {
        ThreadState state;
        std::tie(state.address, state.interpreter, state.pthread) = from;
        PythonStack stack;
        codes_.begin_sample();
        Memory& memory = begin_look();
        walker_.walk(memory, memory, state, codes_, stack);
        return stack;
    }

    Memory& begin_look() {
        limited_.begin(memory_);
        return limited_;
    }

    nb::object owner_;
    Memory& memory_;
    LimitedMemory limited_;
    std::uint32_t next_code_ = 1;
    Runtime runtime_;
    CodeTable codes_;
    FrameWalker walker_;
    Weaver weaver_;
};

}  // namespace

Layout to_layout(const nb::dict& fields) {
    Layout layout;
    for (const auto& [name, value] : fields) {
        const auto found = layout_fields().find(nb::cast<std::string_view>(name));
        if (found == layout_fields().end()) {
            throw nb::value_error("the layout has no such field");
        }
        if (!value.is_none()) {
            layout.*(found->second) = nb::cast<std::uint32_t>(value);
        }
    }
    if (layout.pointer_size != 4 && layout.pointer_size != 8) {
        throw nb::value_error("the layout's pointer_size is neither 4 nor 8");
    }
    return layout;
}

void bind_python(nb::module_& module) {
    nb::list names;
    for (const auto& [name, field] : layout_fields()) {
        names.append(name);
    }
    module.attr("LAYOUT_FIELDS") = nb::tuple(names);
    nb::list losses;
    for (const std::string_view name : kLossNames) {
        losses.append(name);
    }
    module.attr("LOSSES") = nb::tuple(losses);
    module.attr("WOVEN_PYTHON") = static_cast<int>(WovenFrame::Kind::kPython);
    module.attr("WOVEN_NATIVE") = static_cast<int>(WovenFrame::Kind::kNative);
    module.attr("WOVEN_MARKER") = static_cast<int>(WovenFrame::Kind::kMarker);
    nb::class_<RuntimeAddresses>(module, "RuntimeAddresses")
        .def(
            "__init__",
            [](RuntimeAddresses* self, Address interpreters_head, Address current_thread, Address gil,
               std::int64_t current_state) {
                new (self) RuntimeAddresses{interpreters_head, current_thread, gil, current_state};
            },
            nb::arg("interpreters_head"), nb::arg("current_thread") = 0, nb::arg("gil") = 0,
            nb::arg("current_state") = 0)
        .def_ro("interpreters_head", &RuntimeAddresses::interpreters_head)
        .def_ro("current_thread", &RuntimeAddresses::current_thread)
        .def_ro("gil", &RuntimeAddresses::gil)
        .def_ro("current_state", &RuntimeAddresses::current_state);
    nb::class_<PythonReader>(module, "PythonReader")
        .def(nb::init<nb::object, const nb::dict&, const RuntimeAddresses&>(), nb::arg("memory"), nb::arg("layout"),
             nb::arg("addresses"))
        .def("threads", &PythonReader::threads)
        .def("gil_holders", &PythonReader::gil_holders)
        .def("stack", &PythonReader::stack, nb::arg("address"), nb::arg("interpreter"), nb::arg("pthread"))
        .def("weave", &PythonReader::weave, nb::arg("states"), nb::arg("code"), nb::arg("registers"))
        .def("codes", &PythonReader::codes);
}

}  // namespace weft
