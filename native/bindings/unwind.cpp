// Unwind tables for Python: made from the sections of a module, and looked at in readelf's words.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "abi.h"
#include "bindings/bindings.h"
#include "symbols/symbol_table.h"
#include "unwind/code_rule.h"
#include "unwind/kernel_table.h"
#include "unwind/unwinder.h"

namespace nb = nanobind;

namespace weft {

namespace {

constexpr std::array kRegisterNames = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                       "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "ra"};
static_assert(kRegisterNames.size() == kRegisters);

std::string name(Register number) { return kRegisterNames[static_cast<std::size_t>(number)]; }

std::string with_sign(std::int32_t offset) { return (offset < 0 ? "" : "+") + std::to_string(offset); }

std::string told(const Saved& saved) {
    switch (saved.where) {
        case Saved::Where::kSame: return "same";
        case Saved::Where::kAtCfa: return "c" + with_sign(saved.offset);
        case Saved::Where::kAtRegister: return "*(" + name(saved.base) + with_sign(saved.offset) + ")";
        case Saved::Where::kInRegister: return name(saved.base);
        case Saved::Where::kLost: break;
    }
    return "lost";
}

std::string told_cfa(const UnwindRule& rule) {
    std::string sum = name(rule.base) + with_sign(rule.offset);
    switch (rule.cfa) {
        case UnwindRule::Cfa::kNone: return "none";
        case UnwindRule::Cfa::kEnd: return "end";
        case UnwindRule::Cfa::kRegister: return sum;
        case UnwindRule::Cfa::kDeref: return "*(" + sum + ")" + (rule.addend == 0 ? "" : with_sign(rule.addend));
        case UnwindRule::Cfa::kPlt: break;
    }
    return sum + " plt" + with_sign(rule.addend);
}

// What Python has of a table. Maps of code share it without Python's knowledge: they are let go by threads that must not
// wait for the GIL.
struct TableHandle {
    std::shared_ptr<const UnwindTable> table;
};

TableHandle build(const std::vector<nb::tuple>& sections) {
    std::vector<CfiSection> told;
    for (const nb::tuple& section : sections) {
        const auto bytes = nb::cast<nb::bytes>(section[0]);
        told.push_back({{static_cast<const std::byte*>(bytes.data()), bytes.size()},
                        nb::cast<std::uint64_t>(section[1]),
                        nb::cast<bool>(section[2])});
    }
    const nb::gil_scoped_release release;  // the tuples keep the bytes
    return {std::make_shared<const UnwindTable>(UnwindTable::build(told))};
}

TableHandle with_functions(const TableHandle& handle, const std::vector<nb::tuple>& functions) {
    std::vector<FunctionCode> code;
    for (const nb::tuple& function : functions) {
        const auto bytes = nb::cast<nb::bytes>(function[2]);
        code.push_back({nb::cast<std::uint64_t>(function[0]),
                        nb::cast<std::uint64_t>(function[1]),
                        {static_cast<const std::byte*>(bytes.data()), bytes.size()}});
    }
    const nb::gil_scoped_release release;
    return {std::make_shared<const UnwindTable>(handle.table->with_functions(code))};
}

std::vector<std::size_t> uncovered(const TableHandle& handle, const nb::bytes& table) {
    const SymbolTable symbols({table.c_str(), table.size()});
    std::vector<std::size_t> indices;
    for (std::size_t index = 0; index < symbols.size(); ++index) {
        if (!handle.table->knows(symbols[index].st_value)) {
            indices.push_back(index);
        }
    }
    return indices;
}

nb::dict told(const UnwindRule& rule) {
    nb::dict words;
    words["CFA"] = told_cfa(rule);
    words["signal"] = rule.signal;
    words["ra"] = told(rule.return_address);
    for (std::size_t i = 0; i < kPreserved.size(); ++i) {
        words[name(kPreserved[i]).c_str()] = told(rule.saved[i]);
    }
    return words;
}

nb::dict find(const TableHandle& handle, std::uint64_t address) { return told(handle.table->find(address)); }

nb::object rule_of(const nb::bytes& code) {
    const auto rule = rule_of_code({static_cast<const std::byte*>(code.data()), code.size()});
    return rule ? nb::object(told(*rule)) : nb::none();
}

// (number of the first page, the first row of each page and the end, rows, rules), as bytes for the maps of bpf/abi.h.
nb::tuple for_kernel(const TableHandle& handle) {
    const UnwindTable& table = *handle.table;
    std::vector<std::uint32_t> pages = table.first_rows();
    const std::vector<std::uint32_t>& rows = table.all_rows();
    pages.push_back(static_cast<std::uint32_t>(rows.size()));
    std::vector<weft_rule> rules;
    rules.reserve(table.rules().size());
    for (const UnwindRule& rule : table.rules()) {
        rules.push_back(packed(rule));
    }
    const auto bytes = [](const auto& all) { return nb::bytes(all.data(), all.size() * sizeof all.front()); };
    return nb::make_tuple(table.first_page(), bytes(pages), bytes(rows), bytes(rules));
}

nb::dict losses(const TableHandle& handle) {
    const CfiLosses& told = handle.table->losses();
    nb::dict counts;
    counts["functions"] = told.functions;
    counts["expressions"] = told.expressions;
    counts["overlaps"] = told.overlaps;
    return counts;
}

// (pc, stack pointer, CFA, whether the pc is a return address) of each frame, innermost first; and the loss or None.
nb::tuple unwind_all(Memory& memory, CodeMap& code, const RegisterSet& registers) {
    NativeStack stack;
    {
        const nb::gil_scoped_release release;
        StackCopy words;
        words.begin(memory, registers.get(Register::kRsp));
        unwind(words, code, registers, stack);
    }
    nb::list frames;
    for (const NativeFrame& frame : stack.frames) {
        frames.append(nb::make_tuple(frame.pc, frame.stack_pointer, frame.cfa, frame.is_return));
    }
    return nb::make_tuple(
        frames, stack.loss == Loss::kNone ? nb::none() : nb::cast(kLossNames[static_cast<std::size_t>(stack.loss)]));
}

void bind_table(nb::module_& module) {
    nb::class_<TableHandle>(module, "UnwindTable")
        .def_static("build", &build, nb::arg("sections"))
        .def("with_functions", &with_functions, nb::arg("functions"))
        .def(
            "with_entry",
            [](const TableHandle& handle, std::uint64_t entry) {
                return TableHandle{std::make_shared<const UnwindTable>(handle.table->with_entry(entry))};
            },
            nb::arg("entry"))
        .def(
            "covers", [](const TableHandle& handle, std::uint64_t address) { return handle.table->knows(address); },
            nb::arg("address"))
        .def("uncovered", &uncovered, nb::arg("symbols"))
        .def_static(
            "load",
            [](const nb::bytes& bytes) {
                std::optional<UnwindTable> table = UnwindTable::load({bytes.c_str(), bytes.size()});
                return table ? nb::cast(TableHandle{std::make_shared<const UnwindTable>(std::move(*table))})
                             : nb::none();
            },
            nb::arg("bytes"))
        .def("save",
             [](const TableHandle& handle) {
                 const std::string bytes = handle.table->save();
                 return nb::bytes(bytes.data(), bytes.size());
             })
        .def("find", &find, nb::arg("address"))
        .def_prop_ro("number", [](const TableHandle& handle) { return handle.table->number(); })
        .def("for_kernel", &for_kernel)
        .def_prop_ro("losses", &losses)
        .def_prop_ro("bytes", [](const TableHandle& handle) { return handle.table->bytes(); })
        .def("__len__", [](const TableHandle& handle) { return handle.table->rows(); });
}

}  // namespace

void bind_unwind(nb::module_& module) {
    module.attr("STACK_POINTER") = static_cast<int>(Register::kRsp);
    module.attr("PC") = static_cast<int>(Register::kReturn);
    nb::class_<RegisterSet>(module, "RegisterSet")
        .def(nb::init<>())
        .def("__setitem__",
             [](RegisterSet& set, std::size_t number, std::uint64_t value) {
                 if (number >= kRegisters) {
                     throw nb::index_error();
                 }
                 set.set(static_cast<Register>(number), value);
             })
        .def("__getitem__", [](const RegisterSet& set, std::size_t number) {
            if (number >= kRegisters) {
                throw nb::index_error();
            }
            return set.has(static_cast<Register>(number)) ? nb::cast(set.values[number]) : nb::none();
        });
    nb::class_<CodeMap>(module, "CodeMap")
        .def(nb::init<>())
        .def(
            "add",
            [](CodeMap& code, Address begin, Address end, Address bias, std::uint32_t number, const TableHandle* handle,
               bool anonymous) {
                code.add(begin, end, bias, number, handle == nullptr ? nullptr : handle->table, anonymous);
            },
            nb::arg("begin"), nb::arg("end"), nb::arg("bias"), nb::arg("module"), nb::arg("table").none() = nb::none(),
            nb::kw_only(), nb::arg("anonymous") = false)
        .def_prop_ro("tables",
                     [](const CodeMap& code) {
                         nb::list tables;
                         for (const CodeMap::Mapped& mapped : code.mapped()) {
                             tables.append(TableHandle{mapped.table});
                         }
                         return tables;
                     })
        .def("add_eval_loop", &CodeMap::add_eval_loop, nb::arg("begin"), nb::arg("end"))
        .def("add_stack_base", &CodeMap::add_stack_base, nb::arg("begin"), nb::arg("end"));
    module.def("rule_of_code", &rule_of, nb::arg("code"));
    module.def("unwind", &unwind_all, nb::arg("memory"), nb::arg("code"), nb::arg("registers"));
    bind_table(module);
}

}  // namespace weft
