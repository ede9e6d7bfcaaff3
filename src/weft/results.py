"""weft.open(): what a recording tells, as typed rows for Python programs, which turn into pandas or polars frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from weft.errors import OutputError, WeftError
from weft.export import format_of, write
from weft.imports import open_recording
from weft.profile.names import frame_label
from weft.profile.quality import Account
from weft.profile.tables import ACTIVE_VIEW, Profile, View
from weft.profile.transform import Cost, by_function, by_line, by_state, costs
from weft.sample import State

if TYPE_CHECKING:
    import pandas
    import polars

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """What a function cost; times in ns. `samples` are those of its own time."""

    function: str
    file: str
    first_line: int  # 0: not known
    self_ns: int
    total_ns: int  # with all that it called
    samples: int


@dataclass(frozen=True, slots=True)
class LineRow:
    """What a line of a function cost; times in ns."""

    function: str
    file: str
    line: int  # 0: not known
    self_ns: int
    total_ns: int
    samples: int


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """How long a thread was in each state, in ns; docs/report.md tells the states."""

    process: int  # PID
    tid: int
    name: str
    running_ns: int
    runnable_ns: int
    gil_ns: int
    lock_ns: int
    io_ns: int
    sleeping_ns: int
    blocked_ns: int


@dataclass(frozen=True, slots=True)
class StackRow:
    """What a stack of one thread in one state cost. `frames` are as collapsed stacks show them, the outermost first."""

    process: int  # PID
    tid: int
    state: str  # running, runnable, gil, lock, io, sleeping, blocked
    frames: tuple[str, ...]
    weight_ns: int
    samples: int


class Table(Sequence[Row], Generic[Row]):
    """Rows of one kind."""

    def __init__(self, kind: type[Row], rows: Sequence[Row]) -> None:
        self._kind = kind
        self._rows = rows

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<{len(self._rows):,} of {self._kind.__name__}>"

    def columns(self) -> dict[str, list[Any]]:
        """The rows as columns, by their names."""
        names = [field.name for field in fields(self._kind)]  # type: ignore[arg-type]
        return {name: [getattr(row, name) for row in self._rows] for name in names}

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a frame of pandas; raises WeftError where that is not installed."""
        frame: pandas.DataFrame = _package("pandas").DataFrame(self.columns())
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The rows as a frame of polars; raises WeftError where that is not installed."""
        frame: polars.DataFrame = _package("polars").DataFrame(self.columns())
        return frame


class Results:
    """A recording, read whole when it is opened: what it tells does not change if its file does.

    Tables are complete, the most expensive row first. They are made of `capture` and of `everything`: the profile with
    the time in which threads were blocked.
    """

    def __init__(self, path: str | os.PathLike[str], view: View = ACTIVE_VIEW) -> None:
        """Raises CaptureError."""
        self.path = Path(path)
        self._view = view
        self.capture = open_recording(self.path)
        try:
            self.everything = Profile.from_capture(self.capture, view._replace(idle=True))
            self.account = Account.from_capture(self.capture)
        except BaseException:
            self.close()
            raise
        self._profile = self.everything if view.idle else self.everything.active()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file. The tables are there all the same; write() is not."""
        self.capture.close()

    def __repr__(self) -> str:
        return f"<weft results of {self.path.name}: {self.account.summary}>"

    @property
    def meta(self) -> dict[str, str | int]:
        """What is known of the recording: docs/report.md tells the keys."""
        return dict(self._profile.meta)

    @property
    def duration_ns(self) -> int:
        """How long it lasted."""
        return self._profile.duration_ns

    @property
    def weight_ns(self) -> int:
        """The thread time that the tables add up to."""
        return self._profile.weight_ns

    @property
    def samples(self) -> int:
        """The samples that the tables add up to."""
        return self._profile.ticks

    @property
    def functions(self) -> Table[FunctionRow]:
        """What each function cost."""
        return Table(FunctionRow, _costs(self._profile, by_function, FunctionRow))

    @property
    def lines(self) -> Table[LineRow]:
        """What each line cost."""
        return Table(LineRow, _costs(self._profile, by_line, LineRow))

    @property
    def threads(self) -> Table[ThreadRow]:
        """What each thread did; blocked time is always among it."""
        rows = []
        for thread, times in by_state(self.everything).items():
            row = self.everything.threads[thread]
            states = {f"{state.name.lower()}_ns": times[state] for state in State}
            rows.append(ThreadRow(self.everything.processes[row.process].pid, row.tid, row.name, **states))
        return Table(ThreadRow, rows)

    @property
    def stacks(self) -> Table[StackRow]:
        """Every stack of every thread in every state, outermost frame first."""
        return Table(StackRow, sorted(self._stack_rows(), key=lambda row: -row.weight_ns))

    def write(self, path: str | os.PathLike[str], form: str | None = None) -> None:
        """Writes it in another form, by the file's ending or by name: docs/formats.md. Raises OutputError."""
        name = form or format_of(Path(path))
        if name is None:
            raise OutputError(f"cannot write {path}: only recording makes .weft files; give it another ending")
        write(self.capture, name, Path(path), self._view)

    def _stack_rows(self) -> Iterator[StackRow]:
        profile = self._profile
        for total in profile.totals:
            frames = (profile.frames[number] for number in profile.stacks.path(total.stack))
            yield StackRow(
                profile.processes[total.process].pid,
                profile.threads[total.thread].tid,
                total.state.name.lower(),
                tuple(map(frame_label, frames)),
                total.weight_ns,
                total.ticks,
            )


def open_results(path: str | os.PathLike[str], *, idle: bool = False, all_frames: bool = False) -> Results:
    """A recording, or another tool's profile, as typed tables. Raises CaptureError."""
    return Results(path, View(idle=idle, all_frames=all_frames))


def _costs(profile: Profile, key: Callable[..., tuple[str, str, int]], kind: Callable[..., Row]) -> list[Row]:
    def expense(item: tuple[tuple[str, str, int], Cost]) -> tuple[int, tuple[str, str, int]]:
        return -item[1].self_ns, item[0]

    rows = sorted(costs(profile, key).items(), key=expense)
    return [kind(*place, cost.self_ns, cost.total_ns, cost.ticks) for place, cost in rows]


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise WeftError(f"there is no {name} here; pip install {name}") from error
