"""Run by gdb in CPython 3.13 with debug information: one thread's stack, as DWARF and the interpreter tell it.

$weft_tid is the thread. Prints a JSON list of [kind, function], innermost first. An activation of the eval loop is
replaced by its Python frames: those from the interpreter's innermost one on to the entry frame that lies in it, which
is a variable of the eval loop's own. One whose entry frame is on no such chain is told as "other".
"""

import json

import gdb

EVAL = "_PyEval_EvalFrameDefault"


def text_of(string):
    """A str of ASCII letters."""
    data = int(string) + gdb.lookup_type("PyASCIIObject").sizeof
    return gdb.Value(data).cast(gdb.lookup_type("char").pointer()).string()


def chain(tid):
    """The interpreter's frames of the thread, innermost first: their addresses, and names; None of an entry frame."""
    state = gdb.parse_and_eval("_PyRuntime.interpreters.head->threads.head")
    while int(state) and int(state["native_thread_id"]) != tid:
        state = state["next"]
    frame = state["current_frame"]
    while int(frame):
        code = frame["f_executable"]
        is_code = int(code) and text_at(code["ob_type"]["tp_name"]) == "code"
        is_entry = int(frame["owner"]) == 3  # FRAME_OWNED_BY_CSTACK (Include/internal/pycore_frame.h)
        name = text_of(code.cast(gdb.lookup_type("PyCodeObject").pointer())["co_qualname"]) if is_code else None
        yield int(frame), None if is_entry else name
        frame = frame["previous"]


def text_at(pointer):
    """A C string."""
    return pointer.string()


def native():
    """gdb's frames, inlined ones too, innermost first: names, and where the eval loop's entry frame is."""
    frame = gdb.newest_frame()
    while frame is not None:
        name = frame.name() or "??"
        entry = None
        if name == EVAL:
            frame.select()
            entry = int(gdb.parse_and_eval("&entry_frame"))
        yield name, entry
        frame = frame.older()


def woven(tid):
    """One stack."""
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] == tid:
            thread.switch()
    frames = list(chain(tid))
    addresses = [address for address, _ in frames]
    for name, entry in list(native()):
        if entry is None:
            yield "native", name
        elif entry not in addresses:
            yield "other", name
        else:
            end = addresses.index(entry)
            for _, function in frames[:end]:
                if function is not None:
                    yield "python", function
            del frames[: end + 1], addresses[: end + 1]
    for _, function in frames:
        yield "left", function or "?"


print("stack " + json.dumps(list(woven(int(gdb.parse_and_eval("$weft_tid"))))))
