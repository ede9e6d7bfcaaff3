#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "sampler/sampler.h"

namespace nb = nanobind;

namespace weft {

namespace {

template <typename Rows, typename Convert>
nb::list to_list(const Rows& rows, Convert convert) {
    nb::list list;
    for (const auto& row : rows) {
        list.append(convert(row));
    }
    return list;
}

nb::bytes to_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::list events(const Batch& batch) {
    return to_list(batch.events, [](const Event& event) {
        return nb::make_tuple(static_cast<int>(event.kind), event.at_ns, event.process, event.thread, event.parent,
                              event.id, event.value, to_bytes(event.name));
    });
}

nb::list codes(const Batch& batch) {
    return to_list(batch.codes, [](const CodeRow& row) { return nb::make_tuple(row.process, to_tuple(row.code)); });
}

// (id, code, instruction, incomplete) of Python frames; markers have code 0, and a Loss as their instruction.
nb::list python_frames(const Batch& batch) {
    nb::list list;
    for (const FrameRow& row : batch.frames) {
        if (row.frame.is_python()) {
            const PythonFrame frame = row.frame.python();
            list.append(nb::make_tuple(row.id, frame.code, frame.instruction, frame.incomplete));
        }
    }
    return list;
}

// (id, module, address, proof, by frame pointer) of native ones.
nb::list native_frames(const Batch& batch) {
    nb::list list;
    for (const FrameRow& row : batch.frames) {
        if (row.frame.is_native()) {
            list.append(nb::make_tuple(row.id, row.frame.module(), row.frame.address(),
                                       static_cast<int>(row.frame.proof()), row.frame.by_frame_pointer()));
        }
    }
    return list;
}

// (id, address, 0) of frames in the kernel, or (id, None, number of a name).
nb::list kernel_frames(const Batch& batch) {
    nb::list list;
    for (const FrameRow& row : batch.frames) {
        if (row.frame.is_kernel_name()) {
            list.append(nb::make_tuple(row.id, nb::none(), row.frame.kernel_name()));
        } else if (row.frame.is_kernel()) {
            list.append(nb::make_tuple(row.id, row.frame.kernel_address(), 0));
        }
    }
    return list;
}

nb::list kernel_names(const Batch& batch) {
    return to_list(batch.kernel_names, [](const std::string& name) { return to_bytes(name); });
}

nb::list stacks(const Batch& batch) {
    return to_list(batch.stacks, [](const StackRow& row) { return nb::make_tuple(row.id, row.parent, row.frame); });
}

nb::list runs(const Batch& batch) {
    return to_list(batch.runs, [](const ThreadRuns& row) {
        return nb::make_tuple(row.thread, row.runs.start_ns, row.runs.end_ns, to_bytes(row.runs.bytes));
    });
}

nb::list standing(const Batch& batch) {
    return to_list(batch.standing, [](const StandingChange& row) {
        nb::object standing = nb::none();
        if (row.standing) {
            standing =
                nb::make_tuple(row.standing->stack, static_cast<int>(row.standing->state), row.standing->since_ns);
        }
        return nb::make_tuple(row.thread, standing);
    });
}

nb::list gil_waits(const Batch& batch) {
    return to_list(batch.gil_waits, [](const GilWait& row) {
        return nb::make_tuple(row.waiter, row.waiter_stack, row.holder, row.holder_stack, row.weight_ns);
    });
}

nb::list losses(const Batch& batch) {
    nb::list rows;
    for (const ProcessLosses& process : batch.losses) {
        for (std::size_t i = 0; i < kLossCount; ++i) {
            const LossTotal& total = process.losses.totals()[i];
            if (total.count != 0) {
                rows.append(nb::make_tuple(process.process, kLossNames[i], total.count, total.weight_ns));
            }
        }
    }
    return rows;
}

nb::dict account(const Batch& batch) {
    const Account& totals = batch.account;
    nb::dict values;
    values["samples_wanted"] = totals.samples_wanted;
    values["samples_taken"] = totals.samples_taken;
    values["samples_late"] = totals.samples_late;
    values["stacks_whole"] = totals.stacks_whole;
    values["stacks_truncated"] = totals.stacks_truncated;
    values["stacks_incomplete_frames"] = totals.stacks_incomplete;
    values["stacks_retaken"] = totals.stacks_retaken;
    values["samples_dropped"] = totals.samples_dropped;
    values["changes_lost"] = totals.changes_lost;
    values["stacks_in_kernel"] = totals.stacks_in_kernel;
    values["stacks_waiting"] = totals.stacks_waiting;
    values["stacks_still"] = totals.stacks_still;
    values["stacks_moving"] = totals.stacks_moving;
    values["stacks_read_late"] = totals.stacks_read_late;
    values["stays"] = totals.stays;
    values["stays_estimated"] = totals.stays_estimated;
    values["kernel_stacks"] = totals.kernel_stacks;
    values["kernel_hidden"] = totals.kernel_hidden;
    values["native_whole"] = totals.native_whole;
    values["native_truncated"] = totals.native_truncated;
    values["seams_proven"] = totals.seams_proven;
    values["seams_counted"] = totals.seams_counted;
    values["seams_open"] = totals.seams_open;
    values["stops"] = totals.stops;
    values["holds"] = totals.holds;
    values["hold_ns_total"] = totals.hold_ns_total;
    values["hold_ns_max"] = totals.hold_ns_max;
    values["hold_ns_median"] = totals.hold_ns_median;
    values["hold_ns_p99"] = totals.hold_ns_p99;
    values["syscalls_interrupted"] = totals.syscalls_interrupted;
    values["sampler_cpu_ns"] = totals.sampler_cpu_ns;
    values["cpu_clocks"] = totals.cpu_clocks;
    values["cpu_clocks_refused"] = totals.cpu_clocks_refused;
    return values;
}

nb::object next_batch(Sampler& sampler, double timeout_s) {
    Batch batch;
    bool got = false;
    {
        const nb::gil_scoped_release release;
        got = sampler.next_batch(timeout_s, batch);
    }
    return got ? nb::cast(std::move(batch)) : nb::none();
}

void bind_options(nb::module_& module) {
    nb::enum_<Mode>(module, "Mode")
        .value("WALL", Mode::kWall)
        .value("CPU", Mode::kCpu)
        .value("GIL", Mode::kGil)
        .value("ALLOC", Mode::kAlloc);
    nb::enum_<AttachResult>(module, "AttachResult")
        .value("OK", AttachResult::kOk)
        .value("GONE", AttachResult::kGone)
        .value("DENIED", AttachResult::kDenied);
    nb::class_<PythonPlace>(module, "PythonPlace")
        .def(
            "__init__",
            [](PythonPlace* self, const nb::dict& layout, const RuntimeAddresses& addresses) {
                new (self) PythonPlace{to_layout(layout), addresses};
            },
            nb::arg("layout"), nb::arg("addresses"));
    nb::class_<KernelMaps>(module, "KernelMaps")
        .def(
            "__init__",
            [](KernelMaps* self, int ring, std::size_t ring_bytes, int processes, int ignored, int others, int threads,
               int caches, int states, std::uint32_t cpus, std::size_t cache_bytes,
               std::vector<std::vector<int>> clocks) {
                new (self) KernelMaps{ring,   ring_bytes, processes, ignored,     others,           threads,
                                      caches, states,     cpus,      cache_bytes, std::move(clocks)};
            },
            nb::kw_only(), nb::arg("ring"), nb::arg("ring_bytes"), nb::arg("processes"), nb::arg("ignored"),
            nb::arg("others"), nb::arg("threads"), nb::arg("caches"), nb::arg("states"), nb::arg("cpus"),
            nb::arg("cache_bytes"), nb::arg("clocks"));
    nb::class_<ProcessFilter>(module, "ProcessFilter")
        .def(
            "__init__",
            [](ProcessFilter* self, const std::string& cgroup, std::optional<uid_t> user, const std::string& name) {
                new (self) ProcessFilter{cgroup, user, name};
            },
            nb::kw_only(), nb::arg("cgroup") = "", nb::arg("user") = nb::none(), nb::arg("name") = "");
}

}  // namespace

void bind_sampler(nb::module_& module) {
    bind_options(module);
    nb::class_<Batch>(module, "Batch")
        .def_ro("until_ns", &Batch::until_ns)
        .def_ro("finished", &Batch::finished)
        .def_prop_ro("events", &events)
        .def_prop_ro("codes", &codes)
        .def_prop_ro("python_frames", &python_frames)
        .def_prop_ro("native_frames", &native_frames)
        .def_prop_ro("kernel_names", &kernel_names)
        .def_prop_ro("kernel_frames", &kernel_frames)
        .def_prop_ro("stacks", &stacks)
        .def_prop_ro("runs", &runs)
        .def_prop_ro("standing", &standing)
        .def_prop_ro("gil_waits", &gil_waits)
        .def_prop_ro("losses", &losses)
        .def_prop_ro("account", &account);
    using NoGil = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<Sampler>(module, "Sampler")
        .def(
            "__init__",
            [](Sampler* self, double rate_hz, Mode mode, bool stop_threads, bool follow_processes, bool native,
               const KernelMaps* kernel, const ProcessFilter* machine) {
                new (self) Sampler({rate_hz, mode, stop_threads, follow_processes, native,
                                    kernel ? std::optional(*kernel) : std::nullopt,
                                    machine ? std::optional(*machine) : std::nullopt});
            },
            nb::arg("rate_hz"), nb::arg("mode"), nb::arg("stop_threads") = true, nb::arg("follow_processes") = false,
            nb::arg("native") = false, nb::arg("kernel").none() = nb::none(), nb::arg("machine").none() = nb::none())
        .def("attach", &Sampler::attach, nb::arg("pid"), nb::arg("launching") = false, nb::arg("python") = nb::none(),
             nb::arg("code") = CodeMap(), NoGil())
        .def("set_python", &Sampler::set_python, nb::arg("process"), nb::arg("place"), NoGil())
        .def("set_no_python", &Sampler::set_no_python, nb::arg("process"), NoGil())
        .def("set_code", &Sampler::set_code, nb::arg("process"), nb::arg("code"), NoGil())
        .def("next_batch", &next_batch, nb::arg("timeout_s"))
        .def("stop", &Sampler::stop, NoGil());
}

}  // namespace weft
