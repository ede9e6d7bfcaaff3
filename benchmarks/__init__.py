"""weft and its peers, measured side by side: python -m benchmarks; and other benchmarks, each a module of its own.

The tests' interpreters, targets and judges are used as they are.
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path += [str(_TESTS), str(_TESTS / "truth"), str(_TESTS / "unwind")]
