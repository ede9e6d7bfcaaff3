"""Where a thread keeps the address of the thread state that it has attached."""

from __future__ import annotations

import os
import subprocess

import pytest
from interpreters import Interpreter, all_interpreters
from running import StartTarget
from weft_command import wait_until

from weft.cpython.locate import wait_for_runtime
from weft.target.image import Image
from weft.target.maps import modules
from weft.target.memory import read_u64
from weft.target.process import Process


@pytest.mark.parametrize(
    "python", [one for one in all_interpreters() if one.minor >= (3, 12)], ids=lambda python: python.name
)
def test_every_process_of_a_build(python: Interpreter, start_target: StartTarget) -> None:
    """GIVEN programs of the same build, one thread each, that compute THEN the word names that thread's state."""
    for _ in range(2):
        process = Process(start_target(python, "storm.py", 60).pid)
        runtime = wait_for_runtime(process)
        memory, layout, roots = process.memory, runtime.layout, runtime.addresses
        image = next(Image(memory, module) for module in modules(process.maps()) if module.path == runtime.module)
        file = process.open_module(image)
        assert file
        with file:
            command = ["readelf", "--wide", "--syms", f"/proc/{os.getpid()}/fd/{file.fileno()}"]
            symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert bool(roots.current_state) == ("_Py_tss_tstate" in symbols)
        if roots.current_state:
            state = read_u64(memory, read_u64(memory, roots.interpreters_head) + layout.interp_threads_head)
            word = read_u64(memory, state + layout.thread_pthread) + roots.current_state
            wait_until(lambda: read_u64(memory, word) == state, "it has the GIL")  # noqa: B023
