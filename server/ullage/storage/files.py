"""The file port: every file call of storage goes through it, so that a fake disk can fail and lose power.

A call raises OSError and nothing else. Whoever holds a handle closes it. Files are 0600 and folders 0700: a log
holds whatever the person and their tools said.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """A file system. `ullage.testing.disk.FakeDisk` is the other one; both pass `tests/contracts/test_files.py`."""

    def open_append(self, path: Path, *, create: bool = False) -> int:
        """A handle to read and append with. With `create` a missing file is made, and an existing one stays.

        Raises:
            FileNotFoundError: it is not there, and was not to be made.
        """
        ...

    def open_read(self, path: Path) -> int:
        """A handle to read with."""
        ...

    def close(self, handle: int) -> None: ...

    def size(self, handle: int) -> int:
        """Bytes in the file."""
        ...

    def read(self, handle: int, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""
        ...

    def write(self, handle: int, data: bytes | memoryview) -> int:
        """Append in one system call. Returns how many bytes were taken, which may be fewer than given."""
        ...

    def truncate(self, handle: int, size: int) -> None: ...

    def fdatasync(self, handle: int) -> None:
        """Make the file's content survive a power cut. After a failure no later success means anything."""
        ...

    def flock(self, handle: int) -> bool:
        """Take the exclusive lock without waiting; False when somebody else holds it. Closing lets it go."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Replace `new` by `old` in one step; durable once the folder is synced."""
        ...

    def remove(self, path: Path) -> None: ...

    def mkdir(self, path: Path) -> bool:
        """Make one folder; False when it was there. Durable once its parent is synced."""
        ...

    def fsync_dir(self, path: Path) -> None:
        """Make the names in a folder survive a power cut."""
        ...

    def list(self, path: Path) -> list[str]:
        """Names in a folder, sorted; none when it is not there."""
        ...

    def exists(self, path: Path) -> bool: ...


class DiskFiles:
    """The real file system of a POSIX machine."""

    def open_append(self, path: Path, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return os.open(path, flags, 0o600)

    def open_read(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self, handle: int) -> None:
        os.close(handle)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def read(self, handle: int, offset: int, size: int) -> bytes:
        data = os.pread(handle, size, offset)
        while len(data) < size and (more := os.pread(handle, size - len(data), offset + len(data))):
            data += more
        return data

    def write(self, handle: int, data: bytes | memoryview) -> int:
        return os.write(handle, data)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def fdatasync(self, handle: int) -> None:
        _fdatasync(handle)

    def flock(self, handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def remove(self, path: Path) -> None:
        path.unlink()

    def mkdir(self, path: Path) -> bool:
        try:
            path.mkdir(0o700)
        except FileExistsError:
            return False
        return True

    def fsync_dir(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def list(self, path: Path) -> list[str]:
        try:
            return sorted(entry.name for entry in path.iterdir())
        except FileNotFoundError:
            return []

    def exists(self, path: Path) -> bool:
        return path.exists()


def _fdatasync(handle: int) -> None:
    """The strongest sync there is: macOS's fsync stops at the drive's own cache, F_FULLFSYNC doesn't."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(handle, full)
    else:
        os.fdatasync(handle)


def ensure_folder(files: Files, path: Path) -> None:
    """Make a folder and its missing parents, each durable before this returns.

    Every parent is synced even where the folder was there already: whoever made it may have died before the sync.
    """
    missing = [path]
    while not files.exists(missing[-1].parent):
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        files.mkdir(folder)
        files.fsync_dir(folder.parent)


def write_all(files: Files, handle: int, data: bytes) -> None:
    """Append all of `data`, whatever short counts the system gives.

    Raises:
        OSError: some or none of it was written.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[files.write(handle, rest) :]
        except InterruptedError:
            continue


def write_new(files: Files, path: Path, content: Iterable[bytes]) -> None:
    """Put a whole new file in its place, in one step that survives a power cut. `content` comes in pieces.

    Raises:
        OSError: nothing is there under that name that wasn't there before.
    """
    # Two processes may put the same blob at the same time.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    handle = files.open_append(temporary, create=True)
    try:
        try:
            files.truncate(handle, 0)
            for piece in content:
                write_all(files, handle, piece)
            files.fdatasync(handle)
        finally:
            files.close(handle)
        files.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            files.remove(temporary)
        raise
    files.fsync_dir(path.parent)
