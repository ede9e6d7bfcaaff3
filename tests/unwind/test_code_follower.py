"""The work on the code of processes, beside the recording: it holds nothing up, and its errors are not lost."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from weft_command import LIMIT_S, wait_until

from weft.collect.code import CodeFollower
from weft.collect.sampler import Event, EventKind, Sampler
from weft.target.code import CodeBook


def event(kind: EventKind) -> Event:
    """Something that happened to the process 1."""
    return Event(kind, 0, process=1, thread=0, parent=0, id=threading.get_native_id(), value=0, name=b"")


class Book:
    """Takes its time to forget, and makes no map."""

    def __init__(self) -> None:
        self.may_forget = threading.Event()
        self.forgotten: list[bool] = []

    def forget(self, pid: int) -> None:
        self.forgotten.append(self.may_forget.wait(LIMIT_S))

    def map_of(self, *arguments: object) -> Any:
        raise ZeroDivisionError("a mistake of weft")


def test_an_end_is_not_waited_for() -> None:
    """GIVEN a book that is busy WHEN a process ends THEN the recording goes on, and the book is told later."""
    book = Book()
    told: list[int] = []
    follower = CodeFollower(cast(Sampler, SimpleNamespace(forget_code=told.append)), cast(CodeBook, book))
    follower.see(event(EventKind.PROCESS_START))
    follower.see(event(EventKind.PROCESS_END))
    book.may_forget.set()
    wait_until(lambda: book.forgotten != [], "the book is told")
    follower.close()
    assert book.forgotten == [True]
    assert told == [1]


def test_errors_are_raised() -> None:
    """GIVEN a mistake in the work on code THEN a later look raises it."""
    follower = CodeFollower(cast(Sampler, SimpleNamespace(set_code=None)), cast(CodeBook, Book()))
    follower.see(event(EventKind.PROCESS_START))
    follower.see(event(EventKind.CODE_UNKNOWN))
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: follower.check() is not None, "the mistake is raised")
    follower.close()
