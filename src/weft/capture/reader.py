"""Reads a capture, also one that is being written. Nothing in the file is trusted."""

from __future__ import annotations

import json
import sqlite3
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from weft.capture.file import APPLICATION_ID, MAX_BATCH_BYTES, MAX_SOURCE_BYTES, SCHEMA, SCHEMA_VERSION, read_header
from weft.capture.rows import GilWait, Loss, Mapping, Place, Process, Runs, Slice, Source, Standing, Thread, column_of
from weft.errors import CaptureError, CaptureVersionError, NotACaptureError
from weft.sample import KERNEL, Frame, FrameFlag, FrameKind, State

_BATCH = "SELECT thread, start_ns, runs FROM samples WHERE id = ?"
_TIMES = "SELECT id FROM samples WHERE thread = ? AND end_ns > ? AND start_ns < ? ORDER BY id"

# Where the words of an error are from the damaged file, and no UTF-8, the module raises UnicodeDecodeError instead.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


class Capture:
    """One capture, read in one transaction: it shows one moment, however fast the file grows.

    Every method raises CaptureError where the file is damaged; no part of it is ever left out in silence.
    """

    def __init__(self, path: Path, *, checked: bool = False) -> None:
        """`checked`: its pages and values were found sound before, and only what has come since is to be read."""
        self.path = path
        self.names: dict[int, list[Frame]] = {}  # found elsewhere, for native frames that have none here
        self._check_header()
        self._database = self._open()
        try:
            if not checked:
                self._check_content()
            self.meta = self._read_meta()
            self.start_ns = self._time("start_ns", 0)
            self.written_ns = self._time("written_ns", self.start_ns)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file."""
        self._database.close()

    def damaged(self, what: object) -> NotACaptureError:
        """The error that says that this file is damaged, in one line: SQLite's words may quote the file."""
        line = " ".join(str(what).split())
        shown = "".join(char if char.isprintable() else "?" for char in line[:200])
        return NotACaptureError(f"{self.path} is damaged: {shown}")

    def processes(self) -> Iterator[Process]:
        """All processes, the oldest first."""
        for number, pid, parent, command, *rest in self._query("SELECT * FROM process ORDER BY id"):
            yield Process(number, pid, parent, self._arguments(command), *rest)

    def threads(self) -> Iterator[Thread]:
        """All threads, the oldest first."""
        for row in self._query("SELECT * FROM thread ORDER BY id"):
            yield Thread(*row)

    def mappings(self) -> Iterator[Mapping]:
        """All mappings, in the order in which they were seen."""
        for process, start, end, offset, *rest in self._query("SELECT * FROM mapping ORDER BY rowid"):
            yield Mapping(process, start % (1 << 64), end % (1 << 64), offset % (1 << 64), *rest)

    def frames(self, after: int = 0) -> Iterator[tuple[int, tuple[Frame, ...]]]:
        """All frames with ids above `after`; a native one with all functions at its address, outermost first."""
        functions = self._functions(after)
        rows = self._query(
            "SELECT frame.id, kind, a.value, b.value, line, first_line, end_line, column, end_column, flags, "
            "frame.module, path, address "
            "FROM frame LEFT JOIN string a ON a.id = function LEFT JOIN string b ON b.id = file "
            "LEFT JOIN module ON module.id = frame.module WHERE frame.id > ? ORDER BY frame.id",
            after,
        )
        for number, kind, function, file, line, first_line, end_line, column, end_column, flags, *code in rows:
            if kind == FrameKind.KERNEL:
                yield number, self._kernel(number, functions.get(number, ()), *code)
                continue
            if kind == FrameKind.NATIVE:
                yield number, self._native(number, functions.get(number, ()), FrameFlag(flags), *code)
                continue
            if function is None or file is None:
                raise self.damaged(f"frame {number} has no name")
            try:
                known_kind = FrameKind(kind)
            except ValueError as error:
                raise self.damaged(error) from error
            places = (line, first_line, end_line, column, end_column)
            yield number, (Frame(known_kind, function, file, *places, FrameFlag(flags)),)

    def places(self, after: int = 0) -> Iterator[Place]:
        """Where frames without a name lie, with ids above `after`: those of modules and of the kernel."""
        rows = self._query(
            "SELECT id, module, address FROM frame WHERE id > ? AND address IS NOT NULL "
            "AND (kind = ? OR module IS NOT NULL) "
            "AND NOT EXISTS (SELECT 1 FROM function WHERE frame = frame.id) ORDER BY id",
            after,
            FrameKind.KERNEL,
        )
        for number, module, address in rows:
            yield Place(number, module, address if module is not None else address % (1 << 64))

    def modules(self) -> dict[int, tuple[str, str | None]]:
        """The files that native frames lie in: their paths in the target and build-ids, by number."""
        return {number: (path, build_id) for number, path, build_id in self._query("SELECT * FROM module")}

    def _functions(self, after: int) -> dict[int, list[Frame]]:
        """The functions at the address of each native frame above `after`, without their module."""
        functions: dict[int, list[Frame]] = {}
        rows = self._query(
            "SELECT frame, kind, a.value, b.value, line, flags "
            "FROM function LEFT JOIN string a ON a.id = name LEFT JOIN string b ON b.id = file "
            "WHERE frame > ? ORDER BY frame, depth",
            after,
        )
        for number, kind, name, file, line, flags in rows:
            if name is None or file is None or kind not in (FrameKind.NATIVE, FrameKind.CYTHON, FrameKind.KERNEL):
                raise self.damaged(f"a function of frame {number} has no name, or an unknown kind")
            frame = Frame(FrameKind(kind), name, file, line, flags=FrameFlag(flags))
            functions.setdefault(number, []).append(frame)
        return {**self.names, **functions}

    def _native(
        self,
        number: int,
        functions: Sequence[Frame],
        flags: FrameFlag,
        module: int | None,
        path: str | None,
        address: int | None,
    ) -> tuple[Frame, ...]:
        if address is None or (path is None) != (module is None):
            raise self.damaged(f"frame {number} has no place")
        module_path = path or ""
        if not functions:
            functions = (Frame(FrameKind.NATIVE, f"{address:#x}", "", 0),)
        # The innermost is what runs there, and the seam if it is one.
        *outer, inner = (each._replace(file=each.file or module_path, module=module_path) for each in functions)
        return *outer, inner._replace(flags=inner.flags | flags)

    def _kernel(
        self, number: int, functions: Sequence[Frame], module: int | None, path: str | None, address: int | None
    ) -> tuple[Frame, ...]:
        if module is not None or path is not None or (address is None and not functions):
            raise self.damaged(f"frame {number} has no place")
        if address is not None and not functions:
            functions = (Frame(FrameKind.KERNEL, f"{address % (1 << 64):#x}", KERNEL, 0),)
        return tuple(each._replace(module=each.file) for each in functions)

    def stacks(self, after: int = 0) -> Iterator[tuple[int, int, int]]:
        """All stacks with ids above `after` as (id, parent, frame), each after its parent; not the empty one, 0."""
        seen = {0}
        later: dict[int, list[tuple[int, int, int]]] = {}  # of stacks that were told anew, by the parent they wait for
        for first in self._query("SELECT id, parent, frame FROM stack WHERE id > ? ORDER BY id", after):
            ready = [first]
            while ready:
                row = ready.pop()
                if row[0] <= 0:
                    raise self.damaged(f"a stack has the number {row[0]}")
                if row[1] in seen or 0 < row[1] <= after:
                    seen.add(row[0])
                    yield row
                    ready += later.pop(row[0], ())
                else:
                    later.setdefault(row[1], []).append(row)
        if later:
            ((stack, _, _), *_) = next(iter(later.values()))
            raise self.damaged(f"stack {stack} has no caller")

    def totals(self, after: int = 0) -> Iterator[tuple[int, int, int, int, int]]:
        """All runs added up: (thread, stack, state, weight_ns, ticks). Threads that stand still are in standing().

        `after`: the batch that the last one to be left out has the id of.
        """
        from weft._native import RunFold

        folds: dict[int, RunFold] = {}
        for thread, _, runs in self._batches(
            "SELECT thread, start_ns, runs FROM samples WHERE id > ? ORDER BY id", after
        ):
            fold = folds.get(thread)
            if fold is None:
                fold = folds[thread] = RunFold()
            self._decoded(fold.add, runs)
        for thread, fold in folds.items():
            stacks, states, weights, ticks = (column_of(column) for column in fold.totals())
            for row in zip(stacks, states, weights, ticks, strict=True):
                yield (thread, *row)

    def runs(self, thread: int, first: int = 0, last: int | None = None) -> Iterator[Runs]:
        """The runs of one thread in the order of time, a batch at a time: those from `first` on, before `last`."""
        for batch in self._batch_ids.get(thread, [])[first:last]:
            for _, start_ns, runs in self._batches(_BATCH, batch):
                yield self._columns(runs, start_ns)

    def last_batch(self) -> int:
        """The id of the batch that was written last; 0 if there is none."""
        ((number,),) = self._query("SELECT coalesce(max(id), 0) FROM samples")
        return int(number)

    def late_runs(self, after: int, since_ns: int) -> Iterator[tuple[int, Runs]]:
        """Batches with ids above `after` that end later than `since_ns`: their threads and runs."""
        sql = "SELECT thread, start_ns, runs FROM samples WHERE id > ? AND end_ns > ? ORDER BY id"
        for thread, start_ns, runs in self._batches(sql, after, since_ns):
            yield thread, self._columns(runs, start_ns)

    def slices(self, thread: int, batches: int, first: int = 0, last: int | None = None) -> Iterator[Slice]:
        """The runs of one thread in the order of time, so many batches at a time added up; of batches as runs()."""
        from weft._native import RunFold

        ids = self._batch_ids.get(thread, [])[first:last]
        for at in range(0, len(ids), batches):
            fold, begin = RunFold(), None
            for batch in ids[at : at + batches]:
                for _, start_ns, runs in self._batches(_BATCH, batch):
                    begin = start_ns if begin is None else begin
                    self._decoded(fold.add, runs)
            yield Slice(begin or 0, *(column_of(column) for column in fold.totals()))

    def batches_within(self, thread: int, from_ns: int, to_ns: int) -> tuple[int, int]:
        """The first of a thread's batches that has something of a stretch of time, and the one after the last."""
        ids = self._batch_ids.get(thread, [])
        rows = self._query(_TIMES, thread, from_ns, to_ns)
        found = [bisect_left(ids, number) for (number,) in rows]
        return (found[0], found[-1] + 1) if found else (0, 0)

    def standing(self) -> Iterator[Standing]:
        """The runs that have not ended; they last to written_ns."""
        for row in self._query("SELECT thread, stack, state, since_ns FROM standing ORDER BY thread"):
            standing = Standing(*row)
            if not (0 <= standing.state < len(State) and 0 <= standing.since_ns <= self.written_ns):
                raise self.damaged(f"thread {standing.thread} stands in an impossible state or time")
            yield standing

    def gil_waits(self) -> Iterator[GilWait]:
        """Who made whom wait for the GIL."""
        return map(GilWait._make, self._query("SELECT * FROM gil_wait"))

    def sources(self) -> Iterator[Source]:
        """The texts that were taken along, by file."""
        for file, blob, problem in self._query("SELECT file, text, problem FROM source ORDER BY file"):
            yield Source(file, None if blob is None else self._source_text(file, blob), problem)

    def _source_text(self, file: str, blob: bytes) -> str:
        inflater = zlib.decompressobj()
        try:
            text = inflater.decompress(blob, MAX_SOURCE_BYTES).decode()
        except (zlib.error, UnicodeDecodeError) as error:
            raise self.damaged(f"the source of {file}: {error}") from error
        if not inflater.eof or inflater.unused_data:
            raise self.damaged(f"the source of {file} is cut short, or too long")
        return text

    def losses(self) -> Iterator[Loss]:
        """All losses, by process and reason."""
        for row in self._query("SELECT process, reason, count, weight_ns FROM loss"):
            yield Loss(*row)

    def account(self) -> dict[str, int]:
        """The rest of the honest account; docs/account.md has the keys."""
        return dict(self._query("SELECT key, value FROM account"))

    def _check_header(self) -> None:
        try:
            header = read_header(self.path)
        except OSError as error:
            raise CaptureError(f"cannot read {self.path}: {error.strerror}") from error
        if header is None or header.application_id != APPLICATION_ID:
            raise NotACaptureError(f"{self.path} is no weft capture")
        if header.user_version != SCHEMA_VERSION:
            raise CaptureVersionError(
                f"{self.path} is a capture of form {header.user_version}, this weft reads form {SCHEMA_VERSION}; "
                "use the weft that recorded it"
            )
        if header.file_size % header.page_size:
            raise self.damaged("it is cut short")

    def _open(self) -> sqlite3.Connection:
        uri = f"file:{quote(str(self.path.absolute()))}?mode=ro"
        try:
            return _begin(uri)
        except _SQLITE_ERRORS as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise self.damaged(error) from error
            # It is in WAL mode, in a folder where SQLite can make no file to share it with others.
            if self.path.with_name(self.path.name + "-wal").exists():
                advice = "copy it with its -wal file to a folder that you may write to"
                raise CaptureError(f"cannot read {self.path}: {error}; {advice}") from error
        try:
            return _begin(f"{uri}&immutable=1")  # without a -wal file, nobody else has it open
        except _SQLITE_ERRORS as error:
            raise self.damaged(error) from error

    def _check_content(self) -> None:
        """That the pages are sound, the tables are ours, and each column holds what its type says."""
        ours = sqlite3.connect(":memory:")
        ours.executescript(SCHEMA.read_text("utf-8"))
        schema = "SELECT name, type, sql FROM sqlite_schema"
        if missing := {*ours.execute(schema)} - {*self._query(schema)}:
            raise self.damaged(f"table {sorted(missing)[0][0]} is not what it should be")
        for (complaint,) in self._query("PRAGMA quick_check(1)"):
            if complaint != "ok":
                raise self.damaged(complaint)
        for (table,) in ours.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            # SQLite lets any column hold any type; table_info: number, name, type, not null
            wrong = " OR ".join(
                f"typeof({name}) NOT IN ('{kind.lower()}'{'' if required or key else ', ' + repr('null')})"
                for _, name, kind, required, _, key in ours.execute(f"PRAGMA table_info({table})")
                if kind
            )
            if any(self._query(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1")):  # noqa: S608
                raise self.damaged(f"a value in table {table} has the wrong type")
        ours.close()

    def _read_meta(self) -> dict[str, str | int]:
        meta = dict(self._query("SELECT key, value FROM meta"))
        if not all(isinstance(value, str | int) for value in meta.values()):
            raise self.damaged("a value in table meta has the wrong type")
        return meta

    def _query(self, sql: str, *parameters: int) -> Iterator[Any]:
        try:
            for row in self._database.execute(sql, parameters):  # noqa: UP028 - yield from would close the cursor
                yield row
        except _SQLITE_ERRORS as error:
            raise self.damaged(error) from error

    def _batches(self, sql: str, *parameters: int) -> Iterator[tuple[int, int, bytes]]:
        for thread, start_ns, compressed in self._query(sql, *parameters):
            inflater = zlib.decompressobj()
            try:
                runs = inflater.decompress(compressed, MAX_BATCH_BYTES)
            except zlib.error as error:
                raise self.damaged(f"runs of thread {thread}: {error}") from error
            if not inflater.eof or inflater.unused_data:
                raise self.damaged(f"runs of thread {thread} have no proper end")
            yield thread, start_ns, runs

    @cached_property
    def _batch_ids(self) -> dict[int, list[int]]:
        ids: dict[int, list[int]] = {}
        for thread, number in self._query("SELECT thread, id FROM samples ORDER BY id"):
            ids.setdefault(thread, []).append(number)
        return ids

    def _columns(self, runs: bytes, start_ns: int) -> Runs:
        from weft._native import decode_runs

        return Runs(*(column_of(column) for column in self._decoded(decode_runs, runs, start_ns)))

    def _decoded(self, decode: Callable[..., Any], *arguments: object) -> Any:
        from weft._native import CorruptRuns

        try:
            return decode(*arguments)
        except CorruptRuns as error:
            raise self.damaged(error) from error

    def _time(self, key: str, default: int) -> int:
        value = self.meta.get(key, default)
        if not isinstance(value, int) or value < 0:
            raise self.damaged(f"{key} is not a time")
        return value

    def _arguments(self, command: str) -> tuple[str, ...]:
        try:
            arguments = json.loads(command)
        except ValueError as error:
            raise self.damaged(f"command {error}") from error
        if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
            raise self.damaged("a command is not a list of arguments")
        return tuple(arguments)


def _begin(uri: str) -> sqlite3.Connection:
    """A connection in a transaction, which sees one moment."""
    database = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        database.execute("BEGIN")
        database.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except BaseException:
        database.close()
        raise
    return database
