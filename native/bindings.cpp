#include <nanobind/nanobind.h>
#include "sampler/bind_runs.h"
NB_MODULE(_native, m) { weft::bind_runs(m); }
