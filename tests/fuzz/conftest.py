from collections.abc import Callable
from typing import NoReturn

import pytest
from programs import find_clang


@pytest.fixture(scope="session")
def clang(lack: Callable[[str], NoReturn]) -> str:
    """A clang++ with libFuzzer."""
    return find_clang() or lack("there is no clang++ with libFuzzer")
