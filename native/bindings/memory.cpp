#include <nanobind/stl/string.h>

#include <string>
#include <string_view>

#include "bindings/bindings.h"
#include "memory/image.h"
#include "memory/process.h"
#include "memory/recording.h"

namespace nb = nanobind;

namespace weft {

namespace {

constexpr std::size_t kMaxRead = std::size_t{1} << 30;

const char* reason(ReadResult result) {
    switch (result) {
        case ReadResult::kOk: break;
        case ReadResult::kUnmapped: return "not mapped";
        case ReadResult::kGone: return "the process has ended";
        case ReadResult::kDenied: return "not permitted";
        case ReadResult::kTooMuch: return "too much";
    }
    return "";
}

// A number of the target's that was computed with, and so may lie outside of 64 bits. False: it does.
bool fits(const nb::int_& number, std::uint64_t& value) {
    value = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        return false;
    }
    return true;
}

// Raises weft.errors.MemoryReadError.
nb::bytes read(Memory& memory, const nb::int_& address, const nb::int_& size) {
    std::string bytes;
    std::uint64_t at = 0;
    std::uint64_t count = 0;
    ReadResult result = ReadResult::kUnmapped;
    if (fits(address, at) && fits(size, count) && count <= kMaxRead) {
        bytes.resize(count);
        result = count == 0 ? ReadResult::kOk : memory.read(at, bytes.data(), count);
    }
    if (result != ReadResult::kOk) {
        const nb::object error = nb::module_::import_("weft.errors").attr("MemoryReadError");
        PyErr_SetObject(error.ptr(), error(address, size, reason(result)).ptr());
        throw nb::python_error();
    }
    return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

void bind_memory(nb::module_& module) {
    nb::class_<Memory>(module, "Memory").def("read", &read, nb::arg("address"), nb::arg("size"));
    nb::class_<ProcessMemory, Memory>(module, "ProcessMemory").def(nb::init<pid_t>(), nb::arg("pid"));
    nb::class_<RecordingMemory, Memory>(module, "RecordingMemory")
        .def(nb::init<Memory&>(), nb::arg("memory"), nb::keep_alive<1, 2>())
        .def("spans", [](const RecordingMemory& recording) {
            nb::list spans;
            for (const auto& [address, size] : recording.spans()) {
                spans.append(nb::make_tuple(address, size));
            }
            return spans;
        });
    nb::class_<ImageMemory, Memory>(module, "ImageMemory")
        .def(nb::init<>())
        .def(
            "add_bytes",
            [](ImageMemory& image, Address begin, const nb::bytes& bytes) {
                image.add_bytes(begin, std::string(bytes.c_str(), bytes.size()));
            },
            nb::arg("begin"), nb::arg("bytes"))
        .def("add_file", &ImageMemory::add_file, nb::arg("begin"), nb::arg("size"), nb::arg("path"), nb::arg("offset"))
        .def("add_zeros", &ImageMemory::add_zeros, nb::arg("begin"), nb::arg("size"));
}

}  // namespace weft
