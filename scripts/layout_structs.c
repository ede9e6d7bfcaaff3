/* The structs that a layout is made of, for scripts/derive_layout.py, which tells how to compile it: against the headers
 * of a CPython release, internal ones included, it has the same structs as a build of that release. The name of this
 * file is on the list of units in src/weft/cpython/dwarf.py.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>

#if PY_VERSION_HEX >= 0x03070000 && PY_VERSION_HEX < 0x03080000
#include <internal/pystate.h>
#elif PY_VERSION_HEX >= 0x03080000 && PY_VERSION_HEX < 0x03090000
#include <internal/pycore_pystate.h>
#elif PY_VERSION_HEX >= 0x03090000
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#include <internal/pycore_gil.h>
#endif
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe_structs.h>
#include <internal/pycore_tstate.h>
#endif

PyInterpreterState layout_interpreter;
PyThreadState layout_thread;
PyCodeObject layout_code;
PyObject layout_object;
PyVarObject layout_sized;
PyTypeObject layout_type;
#if PY_MAJOR_VERSION >= 3
PyBytesObject layout_bytes;
PyASCIIObject layout_ascii;
PyCompactUnicodeObject layout_compact;
PyUnicodeObject layout_text;
#else
PyStringObject layout_bytes;
#endif
#if PY_VERSION_HEX >= 0x03070000
_PyRuntimeState layout_runtime;
struct _gil_runtime_state layout_gil;
#endif
#if PY_VERSION_HEX >= 0x030b0000
_PyInterpreterFrame layout_frame;
_PyStackChunk layout_chunk;
#else
PyFrameObject layout_frame;
#endif
