"""Writes a capture, in batches of one transaction each."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from weft.capture.file import MAX_BATCH_BYTES, MAX_SOURCE_BYTES, SCHEMA, SIDE_FILES, is_capture
from weft.errors import OutputError
from weft.sample import Frame, FrameFlag, FrameKind

ZLIB_LEVEL: Final = 3  # 0.1 us a run; level 9 takes twice that for 1 % less
STRING_CACHE: Final = 1 << 16  # strings; beyond it the cache starts anew, and a string may be stored twice

# In the order in which a batch is written.
ADD_STRING: Final = "INSERT INTO string VALUES (?, ?)"
ADD_PROCESS: Final = "INSERT INTO process VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)"
ADD_THREAD: Final = "INSERT INTO thread VALUES (?, ?, ?, ?, ?, NULL)"
ADD_MAPPING: Final = "INSERT INTO mapping VALUES (?, ?, ?, ?, ?, ?, ?)"
ADD_MODULE: Final = "INSERT INTO module VALUES (?, ?, ?)"
ADD_FRAME: Final = "INSERT INTO frame VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)"
ADD_NATIVE_FRAME: Final = "INSERT INTO frame VALUES (?, ?, 0, 0, 0, 0, 0, 0, 0, ?, ?, ?)"
ADD_FUNCTION: Final = "INSERT INTO function VALUES (?, ?, ?, ?, ?, ?, ?)"
ADD_STACK: Final = "INSERT OR REPLACE INTO stack VALUES (?, ?, ?)"
ADD_SAMPLES: Final = "INSERT INTO samples (thread, start_ns, end_ns, runs) VALUES (?, ?, ?, ?)"
ADD_GIL_WAIT: Final = (
    "INSERT INTO gil_wait VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET weight_ns = weight_ns + excluded.weight_ns"
)
ADD_SOURCE: Final = "INSERT INTO source VALUES (?, ?, ?)"
SET_RUNTIME: Final = "UPDATE process SET runtime = ? WHERE id = ?"
END_PROCESS: Final = "UPDATE process SET end_ns = ?, exit_status = ? WHERE id = ?"
RENAME_THREAD: Final = "UPDATE thread SET name = ? WHERE id = ?"
END_THREAD: Final = "UPDATE thread SET end_ns = ? WHERE id = ?"
SET_META: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
CLEAR_STANDING: Final = "DELETE FROM standing WHERE thread = ?"
SET_STANDING: Final = "INSERT OR REPLACE INTO standing VALUES (?, ?, ?, ?)"
SET_LOSS: Final = "INSERT OR REPLACE INTO loss VALUES (?, ?, ?, ?)"
SET_ACCOUNT: Final = "INSERT OR REPLACE INTO account VALUES (?, ?)"


class CaptureWriter:
    """Writes one capture. Nothing is on disk before commit(); after an error, what was committed stays.

    Ids are the caller's. For use from one thread.
    All methods that touch the disk raise OutputError.
    """

    def __init__(self, path: Path, meta: Mapping[str, str | int]) -> None:
        """Makes the file; replaces an old capture there and refuses to replace anything else."""
        self.path = path
        self._written_ns = 0
        self._closed = False
        self._strings: dict[str, int] = {}
        self._next_string = 1
        self._queue: dict[str, list[tuple[object, ...]]] = {}
        self._standing: dict[int, tuple[int, int, int, int] | None] = {}
        self._losses: dict[tuple[int, str], tuple[int, int]] = {}
        self._account: dict[str, int] = {}
        self._written_account: dict[str, int] = {}
        with output_errors(path):
            real_path = claim(path)
            self._database = sqlite3.connect(real_path, isolation_level=None)
            # The first transaction is written without WAL, so that the file itself tells what it is from the start.
            self._database.executescript(f"BEGIN; {SCHEMA.read_text('utf-8')}")
            self._database.executemany(SET_META, ((key, _clean_value(value)) for key, value in meta.items()))
            self._database.execute("COMMIT")
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")

    @property
    def is_open(self) -> bool:
        """Whether close() is still to come."""
        return not self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close(ended=str(error) or type(error).__name__)
        except OutputError:
            self._database.close()  # the first error is the one to tell

    def add_process(
        self, process: int, pid: int, parent: int | None, command: Sequence[str], runtime: str | None, start_ns: int
    ) -> None:
        """A process; `parent` is the id of the process that made it, if that is recorded too."""
        arguments = json.dumps([clean(argument) for argument in command], ensure_ascii=False)
        self._add(ADD_PROCESS, process, pid, parent, arguments, runtime and clean(runtime), start_ns)

    def set_runtime(self, process: int, runtime: str | None) -> None:
        """The interpreter that was found in it."""
        self._add(SET_RUNTIME, runtime and clean(runtime), process)

    def end_process(self, process: int, end_ns: int, exit_status: int | None) -> None:
        """The process ended; its status as of wait(2), None if it was not ours to see."""
        self._add(END_PROCESS, end_ns, exit_status, process)

    def add_thread(self, thread: int, process: int, tid: int, name: str, start_ns: int) -> None:
        """A thread of a process."""
        self._add(ADD_THREAD, thread, process, tid, clean(name), start_ns)

    def rename_thread(self, thread: int, name: str) -> None:
        """The thread has another name now."""
        self._add(RENAME_THREAD, clean(name), thread)

    def end_thread(self, thread: int, end_ns: int) -> None:
        """The thread ended."""
        self._add(END_THREAD, end_ns, thread)

    def add_mapping(
        self, process: int, start: int, end: int, offset: int, path: str, build_id: str | None, seen_ns: int
    ) -> None:
        """A file mapped into a process; addresses are unsigned."""
        self._add(ADD_MAPPING, process, _signed(start), _signed(end), _signed(offset), clean(path), build_id, seen_ns)

    def add_frame(self, frame_id: int, frame: Frame) -> None:
        """A frame that stacks may refer to from now on."""
        self._add(
            ADD_FRAME,
            frame_id,
            int(frame.kind),
            self._string(frame.function),
            self._string(frame.file),
            frame.first_line,
            frame.line,
            frame.end_line,
            frame.column,
            frame.end_column,
            int(frame.flags),
        )

    def add_module(self, module: int, path: str, build_id: str | None) -> None:
        """A file whose code native frames refer to."""
        self._add(ADD_MODULE, module, clean(path), build_id)

    def add_native_frame(self, frame_id: int, module: int | None, address: int, flags: FrameFlag) -> None:
        """A frame of native code, by its address in a module, or (None) in its process."""
        self._add(ADD_NATIVE_FRAME, frame_id, int(FrameKind.NATIVE), int(flags), module, address)

    def add_kernel_frame(self, frame_id: int, address: int | None) -> None:
        """A frame in the kernel; None: its function is known, and not its address."""
        place = None if address is None else _signed(address)
        self._add(ADD_NATIVE_FRAME, frame_id, int(FrameKind.KERNEL), 0, None, place)

    def add_functions(self, frame_id: int, functions: Sequence[Frame]) -> None:
        """What lies at the address of a native frame: a function, and those inlined into it there, outermost first."""
        for row in function_rows(frame_id, functions, self._string):
            self._add(ADD_FUNCTION, *row)

    def add_stacks(self, stacks: Iterable[tuple[int, int, int]]) -> None:
        """Stacks as (id, parent, frame): `frame` called by the stack `parent`. A known id replaces what it was."""
        self._queue.setdefault(ADD_STACK, []).extend(stacks)

    def add_runs(self, thread: int, start_ns: int, end_ns: int, runs: bytes) -> None:
        """What RunEncoder.take() gave for this thread: at most MAX_BATCH_BYTES."""
        if len(runs) > MAX_BATCH_BYTES:
            raise ValueError(f"a batch of {len(runs)} bytes is too large")
        self._add(ADD_SAMPLES, thread, start_ns, end_ns, _compressed(runs))

    def set_standing(self, thread: int, stack: int, state: int, since_ns: int) -> None:
        """The thread stands still from here on, until clear_standing()."""
        self._standing[thread] = (thread, stack, state, since_ns)

    def clear_standing(self, thread: int) -> None:
        """The thread moved, or ended; the time that it stood comes with add_runs()."""
        self._standing[thread] = None

    def add_gil_waits(self, waits: Iterable[tuple[int, int, int, int, int]]) -> None:
        """Time (waiter, its stack, holder or 0, its stack or 0, weight_ns), added to what was there before."""
        self._queue.setdefault(ADD_GIL_WAIT, []).extend(waits)

    def add_source(self, file: str, text: str | None, problem: str = "") -> None:
        """The text of a file that frames name: at most MAX_SOURCE_BYTES of UTF-8; None: why it could not be had."""
        blob = None
        if text is not None:
            plain = clean(text).encode()
            if len(plain) > MAX_SOURCE_BYTES:
                raise ValueError(f"a source of {len(plain)} bytes is too large")
            blob = zlib.compress(plain)
        self._add(ADD_SOURCE, clean(file), blob, clean(problem))

    def set_losses(self, process: int, losses: Mapping[str, tuple[int, int]]) -> None:
        """The losses of a process so far: reason -> (count, weight_ns)."""
        self._losses.update(((process, clean(reason)), total) for reason, total in losses.items())

    def set_account(self, account: Mapping[str, int]) -> None:
        """The rest of the account so far; docs/account.md has the keys."""
        self._account.update(account)

    def set_meta(self, key: str, value: str | int) -> None:
        """Something about the recording that was not known at its start."""
        self._add(SET_META, key, _clean_value(value))

    def commit(self, written_ns: int) -> None:
        """Writes everything given so far in one transaction: the capture holds the recording up to written_ns.

        After an OutputError the batch is kept in memory, and the next call tries again.
        """
        self._written_ns = written_ns
        with output_errors(self.path, "; what was recorded before is kept"):
            self._write_batch([*self._drained(), (SET_META, [("written_ns", written_ns)])])
        for pending in (self._queue, self._standing, self._losses):
            pending.clear()
        self._written_account = dict(self._account)

    def close(self, ended: str = "") -> None:
        """Ends the recording; `ended` says why if it was not meant to end. One file remains, without -wal and -shm."""
        self.set_meta("end_ns", self._written_ns)
        self.set_meta("ended", ended)
        self.commit(self._written_ns)
        with output_errors(self.path, "; what was recorded is kept in it and in its -wal file"):
            try:
                self._database.execute("PRAGMA journal_mode = DELETE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:  # someone reads it: it stays as it is
                    raise
            self._database.close()
        self._closed = True

    def _add(self, statement: str, *row: object) -> None:
        self._queue.setdefault(statement, []).append(row)

    def _string(self, value: str) -> int:
        known = self._strings.get(value)
        if known is not None:
            return known
        if len(self._strings) >= STRING_CACHE:
            self._strings.clear()
        self._strings[value] = self._next_string
        self._add(ADD_STRING, self._next_string, clean(value))
        self._next_string += 1
        return self._next_string - 1

    def _drained(self) -> Iterator[tuple[str, Sequence[tuple[object, ...]]]]:
        """What waits to be written, rows before the changes to them."""
        yield from sorted(self._queue.items(), key=lambda item: not item[0].startswith("INSERT INTO"))
        yield CLEAR_STANDING, [(thread,) for thread, row in self._standing.items() if row is None]
        yield SET_STANDING, [row for row in self._standing.values() if row is not None]
        yield SET_LOSS, [(*key, *total) for key, total in self._losses.items()]
        yield SET_ACCOUNT, list(self._account.items() - self._written_account.items())

    def _write_batch(self, batch: Iterable[tuple[str, Sequence[tuple[object, ...]]]]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            for statement, rows in batch:
                try:
                    self._database.executemany(statement, rows)
                except OverflowError as error:  # a fault of ours: which number it was must not be lost
                    row = next(filter(_has_too_large, rows), None)
                    raise OutputError(f"cannot write {self.path}: no 64 bits hold {row} of {statement!r}") from error
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:  # SQLite ends it by itself after some errors
                self._database.execute("ROLLBACK")
            raise


def _compressed(runs: bytes) -> bytes:
    """As zlib.compress() does, with no larger window than needed: the usual one takes longer to make than to use."""
    window_bits = min(max(len(runs).bit_length(), 9), zlib.MAX_WBITS)
    stream = zlib.compressobj(ZLIB_LEVEL, zlib.DEFLATED, window_bits, window_bits - 7)
    return stream.compress(runs) + stream.flush()


def _has_too_large(row: Sequence[object]) -> bool:
    return any(isinstance(value, int) and value.bit_length() > 63 for value in row)


def function_rows(
    frame_id: int, functions: Sequence[Frame], number: Callable[[str], int]
) -> Iterator[tuple[int, int, int, int, int, int, int]]:
    """The rows of what lies at a frame's address; `number` gives the id of a string."""
    for depth, frame in enumerate(functions):
        has_file = frame.line or frame.kind is FrameKind.KERNEL
        name, file = number(frame.function), number(frame.file if has_file else "")
        flags = frame.flags & (FrameFlag.MACHINERY | FrameFlag.WRAPPER)  # the others are of the frame
        yield frame_id, depth, int(frame.kind), name, file, frame.line, int(flags)


def claim(path: Path) -> Path:
    """Makes an empty file at `path`, in place of an old capture if there is one; returns where it really is."""
    try:
        status = path.stat()
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISREG(status.st_mode):
            raise OutputError(f"cannot write {path}: it is not a regular file")
        if status.st_size > 0 and not is_capture(path):
            raise OutputError(f"cannot write {path}: it exists and is no weft capture; choose another name")
        _check_unused(path)
        path.resolve().unlink()
    real_path = path.resolve()
    for suffix in SIDE_FILES:
        real_path.with_name(real_path.name + suffix).unlink(missing_ok=True)
    real_path.touch(exist_ok=False)
    return real_path


def _check_unused(path: Path) -> None:
    """Refuses an old capture that another weft is writing: leaving WAL mode needs a file that nobody uses."""
    try:
        database = sqlite3.connect(path, timeout=0, isolation_level=None)
        database.execute("PRAGMA journal_mode = DELETE")
        database.close()
    except (sqlite3.Error, UnicodeDecodeError) as error:  # a damaged one is replaced, too
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise OutputError(f"cannot write {path}: another program has it open; choose another name") from error


@contextmanager
def output_errors(path: Path, comfort: str = "") -> Iterator[None]:
    """Turns what SQLite and the system say into one line."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the primary code
        reason = {
            sqlite3.SQLITE_FULL: os.strerror(errno.ENOSPC),
            sqlite3.SQLITE_IOERR: os.strerror(errno.EIO),
        }.get(code, str(error))
        raise OutputError(f"cannot write {path}: {reason}{comfort}") from error
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}{comfort}") from error


def clean(text: str) -> str:
    """Text as SQLite takes it: lone surrogates, which names in a target can hold, become escapes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def _clean_value(value: str | int) -> str | int:
    return clean(value) if isinstance(value, str) else value


def _signed(address: int) -> int:
    return address - (1 << 64) if address >= 1 << 63 else address
