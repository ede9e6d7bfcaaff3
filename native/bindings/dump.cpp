// What a dump needs of the kernel, and what `weft doctor` tries of it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"

#include <cerrno>
#include <chrono>
#include <cstdint>

#include "sampler/readers.h"
#include "sampler/stopped.h"

namespace nb = nanobind;

namespace weft {

namespace {

constexpr std::uint64_t kProbePeriod = 1'000'000;  // ns

std::chrono::nanoseconds to_duration(double seconds) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

// 0, or the errno with which the kernel refuses.
int probe_cpu_clock(pid_t tid, bool user_only) {
    errno = 0;
    std::vector<Tick> taken;
    Readers readers([&](TickRing& ring, const Wake&) { ring.take(taken); });
    const auto ticks = user_only ? CpuClock::Ticks::kUser : CpuClock::Ticks::kStacks;
    return CpuClock::open(tid, kProbePeriod, ticks, readers.rings_for(tid)).valid() ? 0 : errno;
}

}  // namespace

void bind_dump(nb::module_& module) {
    nb::class_<StoppedThread> stopped(module, "StoppedThread");
    nb::enum_<StoppedThread::Result>(module, "StopResult")
        .value("STOPPED", StoppedThread::Result::kStopped)
        .value("GONE", StoppedThread::Result::kGone)
        .value("DENIED", StoppedThread::Result::kDenied)
        .value("TIMED_OUT", StoppedThread::Result::kTimedOut);
    stopped
        .def(
            "__init__",
            [](StoppedThread* self, pid_t tid, double timeout_s) {
                const nb::gil_scoped_release release;
                new (self) StoppedThread(tid, to_duration(timeout_s));
            },
            nb::arg("tid"), nb::arg("timeout_s"))
        .def_prop_ro("result", &StoppedThread::result)
        .def_prop_ro("thread_pointer", &StoppedThread::thread_pointer)
        .def_prop_ro("registers", &StoppedThread::registers)
        .def("release", &StoppedThread::release, nb::call_guard<nb::gil_scoped_release>());
    module.def(
        "kernel_stack",
        [](pid_t pid, pid_t tid) -> std::optional<std::vector<std::string>> {
            std::vector<std::string> functions;
            return ThreadFiles(pid, tid).read_kernel_stack(functions) ? std::optional(functions) : std::nullopt;
        },
        nb::arg("pid"), nb::arg("tid"));
    module.def("probe_cpu_clock", &probe_cpu_clock, nb::arg("tid"), nb::arg("user_only"));
}

}  // namespace weft
