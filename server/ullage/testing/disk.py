"""A disk in memory that can fail and lose power: the other implementation of `ullage.storage.files.Files`.

What is written is visible at once, and durable only once it is synced: a file's content by `fdatasync`, a name by
`fsync_dir` of its folder. `lose_power` gives a new disk with what a power cut may have left.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512
"""Bytes that a disk writes or doesn't; what is smaller than this isn't torn."""

Choose = Callable[[int], int]
"""Picks a number from 0 to n, n included. All states that a power cut may leave are all answers that it may give."""


@dataclass
class _Node:
    """A file: content as readers see it, content on disk, and what lies between, in order."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    waiting: list[bytes | int] = field(default_factory=list)
    """Bytes that were appended, and sizes that it was cut to."""
    lost: bool = False
    """A sync failed: the system dropped what waited, and calls every later sync a success."""


@dataclass
class _Folder:
    names: dict[str, _Node] = field(default_factory=dict)
    durable: dict[str, _Node] = field(default_factory=dict)
    waiting: list[dict[str, _Node]] = field(default_factory=list)
    """The names after each change since the last sync, in order."""


@dataclass(frozen=True)
class Call:
    """A call as it came in. `name` is the file's or folder's own, without its path."""

    what: str
    name: str


class FakeDisk:
    """`Files` without a disk. `calls` is everything that was asked, in order."""

    def __init__(self, root: Path) -> None:
        self.calls: list[Call] = []
        self._folders: dict[Path, _Folder] = {root: _Folder()}
        self._durable_folders = {root}
        self._handles: dict[int, tuple[Path, _Node]] = {}
        self._next_handle = 3
        self._locks: dict[int, _Node] = {}
        self._failing: tuple[int, int | None] | None = None

    # --- what tests do to it ---

    def fail(self, nth: int, error: int | None) -> None:
        """Let the nth call from now on fail with this errno; None lets a write take only half."""
        self._failing = (len(self.calls) + nth, error)

    @property
    def has_failed(self) -> bool:
        return self._failing is not None and len(self.calls) >= self._failing[0]

    def put(self, path: Path, content: bytes) -> None:
        """A file that is durable already, with its folder."""
        folder = self._folders.setdefault(path.parent, _Folder())
        self._durable_folders.add(path.parent)
        node = _Node(bytearray(content), bytes(content))
        folder.names[path.name] = folder.durable[path.name] = node

    def content(self, path: Path) -> bytes:
        return bytes(self._node(path).content)

    def lose_power(self, choose: Choose) -> FakeDisk:
        """The disk after a power cut; `lambda n: 0` keeps only what was synced, `lambda n: n` everything."""
        after = FakeDisk(next(iter(self._folders)))
        survivors: dict[int, _Node] = {}
        for path, folder in self._folders.items():
            states = [folder.durable, *folder.waiting]
            names = states[choose(len(states) - 1)] if len(states) > 1 else folder.durable
            if path not in self._durable_folders and not choose(1):
                continue
            kept = {name: survivors.setdefault(id(node), _after_cut(node, choose)) for name, node in names.items()}
            after._folders[path] = _Folder(kept, dict(kept))
            after._durable_folders.add(path)
        return after

    # --- the port ---

    def open_append(self, path: Path, *, create: bool = False) -> int:
        self._called("open_append", path)
        folder = self._folder(path.parent)
        if create and path.name not in folder.names:
            self._rename_in(folder, {**folder.names, path.name: _Node()})
        return self._open(path)

    def open_read(self, path: Path) -> int:
        self._called("open_read", path)
        return self._open(path)

    def close(self, handle: int) -> None:
        # Not counted among the calls: nothing can be done about a close that fails.
        del self._handles[handle]
        self._locks.pop(handle, None)

    def size(self, handle: int) -> int:
        return len(self._at(handle, "size").content)

    def read(self, handle: int, offset: int, size: int) -> bytes:
        return bytes(self._at(handle, "read").content[offset : offset + size])

    def write(self, handle: int, data: bytes | memoryview) -> int:
        path, node = self._handles[handle]
        taken = bytes(data[: max(1, len(data) // 2)] if self._called("write", path) else data)
        node.content += taken
        node.waiting.append(taken)
        return len(taken)

    def truncate(self, handle: int, size: int) -> None:
        node = self._at(handle, "truncate")
        del node.content[size:]
        node.waiting.append(size)

    def fdatasync(self, handle: int) -> None:
        path, node = self._handles[handle]
        try:
            self._called("fdatasync", path)
        except OSError:
            node.lost = True
            raise
        if not node.lost:
            node.durable = bytes(node.content)
            node.waiting.clear()

    def flock(self, handle: int) -> bool:
        node = self._at(handle, "flock")
        if any(held is node for holder, held in self._locks.items() if holder != handle):
            return False
        self._locks[handle] = node
        return True

    def rename(self, old: Path, new: Path) -> None:
        self._called("rename", new)
        assert old.parent == new.parent, "a rename between folders has no durable order"
        folder = self._folder(old.parent)
        names = dict(folder.names)
        names[new.name] = names.pop(old.name)
        self._rename_in(folder, names)

    def remove(self, path: Path) -> None:
        self._called("remove", path)
        self._node(path)
        folder = self._folder(path.parent)
        self._rename_in(folder, {name: node for name, node in folder.names.items() if name != path.name})

    def mkdir(self, path: Path) -> bool:
        self._called("mkdir", path)
        self._folder(path.parent)
        if path in self._folders:
            return False
        self._folders[path] = _Folder()
        return True

    def fsync_dir(self, path: Path) -> None:
        self._called("fsync_dir", path)
        folder = self._folder(path)
        folder.durable = dict(folder.names)
        folder.waiting.clear()
        self._durable_folders |= {child for child in self._folders if child.parent == path}

    def list(self, path: Path) -> list[str]:
        self._called("list", path)
        if path not in self._folders:
            return []
        children = [child.name for child in self._folders if child.parent == path and child != path]
        return sorted([*self._folders[path].names, *children])

    def exists(self, path: Path) -> bool:
        folder = self._folders.get(path.parent)
        return path in self._folders or (folder is not None and path.name in folder.names)

    # --- inside ---

    def _called(self, what: str, path: Path) -> bool:
        """Note a call; raises when it is the one to fail. True when it is to be cut short."""
        self.calls.append(Call(what, path.name))
        if self._failing is None or len(self.calls) != self._failing[0]:
            return False
        error = self._failing[1]
        if error is None:
            return True
        raise OSError(error, os.strerror(error))

    def _at(self, handle: int, what: str) -> _Node:
        path, node = self._handles[handle]
        self._called(what, path)
        return node

    def _open(self, path: Path) -> int:
        self._next_handle += 1
        self._handles[self._next_handle] = (path, self._node(path))
        return self._next_handle

    def _node(self, path: Path) -> _Node:
        try:
            return self._folder(path.parent).names[path.name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

    def _folder(self, path: Path) -> _Folder:
        try:
            return self._folders[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

    @staticmethod
    def _rename_in(folder: _Folder, names: dict[str, _Node]) -> None:
        folder.names = names
        folder.waiting.append(names)


def _after_cut(node: _Node, choose: Choose) -> _Node:
    """A file after a power cut: what was synced, then the first few of what waited, the last of them torn."""
    content = bytearray(node.durable)
    kept = choose(len(node.waiting)) if node.waiting else 0
    for change in node.waiting[:kept]:
        _change(content, change)
    torn = node.waiting[kept] if kept < len(node.waiting) else b""
    if isinstance(torn, bytes) and len(torn) > SECTOR:
        content += torn[: SECTOR * choose((len(torn) - 1) // SECTOR)]
    return _Node(content, bytes(content))


def _change(content: bytearray, change: bytes | int) -> None:
    if isinstance(change, int):
        del content[change:]
    else:
        content += change
