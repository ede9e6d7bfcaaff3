"""What is left out of stacks, and what is worth seeing: functions of CPython 2.7 to 3.15."""

from __future__ import annotations

import pytest

from weft.symbolize.machinery import is_machinery

HIDDEN = """
    PyEval_EvalFrameEx _PyEval_EvalFrameDefault _PyEval_Vector PyEval_EvalCode
    _PyFunction_Vectorcall function_code_fastcall fast_function call_function PyObject_Vectorcall PyObject_CallOneArg
    _PyObject_MakeTpCall _PyObject_VectorcallTstate cfunction_vectorcall_FASTCALL method_vectorcall_O type_call
    slot_tp_call _Py_slot_tp_getattr_hook slot_tp_richcompare gen_send_ex2 gen_iternext call_method
    Py_RunMain Py_BytesMain pymain_run_python run_mod run_eval_code_obj _PyRun_SimpleFileObject main thread_run
    pythread_wrapper t_bootstrap _TAIL_CALL_BINARY_OP
"""
SHOWN = """
    list_sort_impl listsort builtin_sorted dict_dealloc insertdict list_extend take_gil drop_gil PyEval_RestoreThread
    gc_collect_main collect _PyObject_Malloc pymalloc_alloc _PyObject_Free PyImport_ImportModuleLevelObject
    subtype_dealloc PyObject_CallFinalizerFromDealloc PyObject_CallFinalizer long_mul unicode_concatenate pattern_subx
    builtin_next map_next time_sleep PyObject_IsInstance
"""


@pytest.mark.parametrize("function", HIDDEN.split())
def test_hidden(function: str) -> None:
    assert is_machinery(function, interpreter=True)


@pytest.mark.parametrize("function", SHOWN.split())
def test_shown(function: str) -> None:
    assert not is_machinery(function, interpreter=True)


def test_other_modules() -> None:
    """Functions of other modules are their own business, whatever their names; but not how the C library begins."""
    assert not is_machinery("call_method", interpreter=False)
    assert not is_machinery("main", interpreter=False)
    assert is_machinery("__libc_start_main@@GLIBC_2.34", interpreter=False)
    assert is_machinery("start_thread", interpreter=False)
