#include <nanobind/nanobind.h>
NB_MODULE(_native, m) { m.def("hi", [] { return 1; }); }
