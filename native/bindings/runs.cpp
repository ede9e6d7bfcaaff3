// Runs for Python: columns are bytes of native 64-bit integers, for array('q').frombytes.
#include "bindings/bindings.h"

#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "sampler/runs.h"

namespace nb = nanobind;

namespace weft {
namespace {

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

template <typename Row, typename Field>
nb::bytes column(const std::vector<Row>& rows, Field Row::* field) {
    static_assert(sizeof(Field) == 8);
    std::vector<Field> values;
    values.reserve(rows.size());
    for (const auto& row : rows) values.push_back(row.*field);
    return nb::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Field));
}

nb::tuple decode(const nb::bytes& bytes, std::int64_t start_ns) {
    const auto runs = decode_runs(view(bytes), start_ns);
    return nb::make_tuple(column(runs, &Run::at_ns), column(runs, &Run::weight_ns), column(runs, &Run::ticks),
                          column(runs, &Run::state), column(runs, &Run::stack));
}

nb::tuple take(RunEncoder& encoder) {
    if (encoder.size() == 0) throw std::invalid_argument("there are no runs to take");
    const auto batch = encoder.take();
    return nb::make_tuple(batch.start_ns, batch.end_ns, nb::bytes(batch.bytes.data(), batch.bytes.size()));
}

nb::tuple totals(const RunFold& fold) {
    const auto rows = fold.totals();
    return nb::make_tuple(column(rows, &RunTotal::stack), column(rows, &RunTotal::state),
                          column(rows, &RunTotal::weight_ns), column(rows, &RunTotal::ticks));
}

}  // namespace

void bind_runs(nb::module_& module) {
    nb::exception<CorruptRuns>(module, "CorruptRuns", PyExc_ValueError);

    nb::class_<RunEncoder>(module, "RunEncoder", "Collects the runs of one thread, batch by batch.")
        .def(nb::init<>())
        .def("append", &RunEncoder::append, nb::arg("at_ns"), nb::arg("weight_ns"), nb::arg("ticks"), nb::arg("state"),
             nb::arg("stack"))
        .def("__len__", &RunEncoder::size)
        .def("take", &take, "The batch so far as (start_ns, end_ns, bytes); a new one begins.");

    module.def("decode_runs", &decode, nb::arg("bytes"), nb::arg("start_ns"),
               "The columns (at_ns, weight_ns, ticks, state, stack) of one batch; raises CorruptRuns.");

    nb::class_<RunFold>(module, "RunFold", "Adds up batches: weight and ticks of each pair of stack and state.")
        .def(nb::init<>())
        .def(
            "add", [](RunFold& fold, const nb::bytes& bytes) { fold.add(view(bytes)); }, nb::arg("bytes"))
        .def("totals", &totals, "The columns (stack, state, weight_ns, ticks), in no order.");
}

}  // namespace weft
