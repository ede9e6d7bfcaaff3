"""The stacks of a capture that grows, as they are shown: what weft.profile makes of a whole one, a row at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from weft.errors import CaptureError
from weft.profile.tables import Stacks
from weft.sample import HIDDEN, Frame, FrameKind, is_body

Key = TypeVar("Key", bound=Hashable)

PYTHON: Final = (FrameKind.PYTHON, FrameKind.CYTHON, FrameKind.MARKER)  # what is left without native frames
_MAX_PATHS: Final = 1 << 15  # of stacks that are kept at hand


class Sight(NamedTuple):
    """Which frames are shown."""

    native: bool = True
    all_frames: bool = False  # the interpreter's machinery, too


class LiveStacks:
    """The stacks of a capture as one tree. What comes later is added; where names have changed it is made anew."""

    def __init__(self, sight: Sight, *, allocates: bool) -> None:
        """allocates: in mode alloc, a stack whose innermost frame is native is shown as its caller's."""
        self.sight = sight
        self._allocates = allocates
        self._functions: dict[int, tuple[Frame, ...]] = {}  # by the capture's ids of frames
        self._rows: dict[int, tuple[int, int]] = {}  # the capture's stacks: parent and frame
        self.rebuild()

    def rebuild(self) -> None:
        """Make the tree anew: all nodes have new numbers."""
        self.frames: list[Frame] = []
        self._known: dict[Frame, int] = {}
        self._numbers: dict[int, tuple[int, ...]] = {}
        self._woven = Stacks()  # with native frames
        self.tree = Stacks() if not self.sight.native else self._woven
        self._shown = [0]  # nodes of _woven -> nodes of tree
        self._nodes: dict[int, int] = {0: 0}
        self._callers: dict[int, int] = {}
        for stack, (parent, frame) in self._rows.items():  # in the order in which they came: parents first
            self._grow(stack, parent, frame)

    def add_frames(self, frames: Iterable[tuple[int, tuple[Frame, ...]]]) -> None:
        """Frames by their ids, with all functions at their place, outermost first. Of known ones the names change."""
        self._functions.update(frames)

    def add_stacks(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Stacks as (id, parent, frame), each after its parent. CaptureError where a parent or a frame is not there."""
        for stack, parent, frame in rows:
            self._rows[stack] = parent, frame
            self._grow(stack, parent, frame)

    def retell(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Take all rows for what they are now; rebuild() is to follow."""
        self._rows = {stack: (parent, frame) for stack, parent, frame in rows}

    def node(self, stack: int) -> int:
        """The node of `tree` that a stack of the capture is shown as. CaptureError."""
        node = self._callers.get(stack)
        if node is None:
            node = self._nodes.get(stack)
        if node is None:
            raise CaptureError(f"the capture is damaged: stack {stack} is not there")
        return self._shown[node]

    def innermost(self, stack: int) -> Frame | None:
        """The innermost Python frame of a stack of the capture; without one, the innermost; None: it is empty."""
        tree, first = self.tree, self.node(stack)
        node = first
        while node:
            frame = self.frames[tree.frame[node]]
            if frame.kind in (FrameKind.PYTHON, FrameKind.CYTHON):
                return frame
            node = tree.parent[node]
        return self.frames[tree.frame[first]] if first else None

    def _grow(self, stack: int, parent: int, frame_id: int) -> None:
        numbers = self._numbers.get(frame_id)
        if numbers is None:
            numbers = self._numbers[frame_id] = self._number(frame_id)
        caller_node = node = self._nodes.get(parent, -1)
        if node < 0:
            raise CaptureError(f"the capture is damaged: stack {stack} has no caller")
        woven = self._woven
        for shown in numbers:
            caller = woven.frame[node]
            if node and is_body(self.frames[shown], self.frames[caller]):
                node = woven.parent[node]  # it is shown in its wrapper's place
            node = woven.add(node, shown)
        self._nodes[stack] = node
        of_caller = self._allocates and not self.sight.all_frames
        if of_caller and parent and any(self.frames[shown].kind is FrameKind.NATIVE for shown in numbers):
            self._callers[stack] = caller_node
        for new in range(len(self._shown), len(woven)):
            self._shown.append(new if self.sight.native else self._python_node(new))

    def _number(self, frame_id: int) -> tuple[int, ...]:
        functions = self._functions.get(frame_id)
        if functions is None:
            raise CaptureError(f"the capture is damaged: frame {frame_id} is not there")
        numbers = []
        for frame in functions:
            if self.sight.all_frames or not frame.flags & HIDDEN:
                number = self._known.setdefault(frame, len(self.frames))
                if number == len(self.frames):
                    self.frames.append(frame)
                numbers.append(number)
        return tuple(numbers)

    def _python_node(self, node: int) -> int:
        caller, frame = self._shown[self._woven.parent[node]], self._woven.frame[node]
        return self.tree.add(caller, frame) if self.frames[frame].kind in PYTHON else caller


class Groups(Generic[Key]):
    """The frames of stacks by a key: functions, or lines. `keys` and `samples` (a frame of each) are by number."""

    def __init__(self, stacks: LiveStacks, key: Callable[[Frame], Key]) -> None:
        self._stacks = stacks
        self._key = key
        self._numbers: dict[Key, int] = {}
        self._of_frame: list[int] = []
        self._paths: dict[int, tuple[int, ...]] = {}
        self.keys: list[Key] = []
        self.samples: list[Frame] = []

    def path(self, node: int) -> tuple[int, ...]:
        """The numbers on the path of a node of the tree, each once, the innermost first."""
        path = self._paths.get(node)
        if path is None:
            if len(self._paths) >= _MAX_PATHS:
                self._paths.clear()
            self._look()
            tree, at = self._stacks.tree, node
            found: dict[int, None] = {}  # in order
            while at:
                found[self._of_frame[tree.frame[at]]] = None
                at = tree.parent[at]
            path = self._paths[node] = tuple(found)
        return path

    def _look(self) -> None:
        for frame in self._stacks.frames[len(self._of_frame) :]:
            key = self._key(frame)
            number = self._numbers.setdefault(key, len(self.keys))
            if number == len(self.keys):
                self.keys.append(key)
                self.samples.append(frame)
            self._of_frame.append(number)


class Flame:
    """Stacks with functions as frames, from the root on or (inverted) from what runs: a tree of calls.

    Node 0 is the root of all; `tree.frame` are numbers of `functions`.
    """

    def __init__(self, stacks: LiveStacks, key: Callable[[Frame], Key], *, inverted: bool) -> None:
        self.tree = Stacks()
        self.children: list[list[int]] = [[]]
        self._stacks = stacks
        self._inverted = inverted
        self._paths: dict[int, tuple[int, ...]] = {}
        self._key = key
        self._numbers: dict[Hashable, int] = {}
        self.samples: list[Frame] = []  # of each function

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes of this tree on the path of a node of the stacks' tree, the leaf first."""
        path = self._paths.get(node)
        if path is None:
            if len(self._paths) >= _MAX_PATHS:
                self._paths.clear()
            frames = [self._stacks.frames[frame] for frame in self._stacks.tree.path(node)]
            at, nodes = 0, []
            for frame in reversed(frames) if self._inverted else frames:
                caller, at = at, self.tree.add(at, self._number(frame))
                if at == len(self.children):
                    self.children[caller].append(at)
                    self.children.append([])
                nodes.append(at)
            path = self._paths[node] = (*reversed(nodes), 0)
        return path

    def _number(self, frame: Frame) -> int:
        key = self._key(frame)
        number = self._numbers.setdefault(key, len(self.samples))
        if number == len(self.samples):
            self.samples.append(frame)
        return number
