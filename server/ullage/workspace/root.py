"""The door to a workspace's files: the only module that opens them.

Invariant: every descriptor made here names something below the root directory that was resolved when the workspace
was opened, reached without following a single link.

How: the root is held as a directory descriptor; nothing is ever looked up by an absolute path again. On Linux one
`openat2(BENEATH | NO_SYMLINKS | NO_MAGICLINKS)` checks and opens in one step; elsewhere, and where that call is
refused, each name is opened in turn with `O_NOFOLLOW` from the descriptor of the one before. What was opened is
judged by `fstat` on the descriptor, never by a second look at the name.

What would break it: checking a path and then opening it by name (somebody swaps a folder for a link in between),
resolving `..`, or following a link "because it stays inside". A folder that is moved out of the workspace while it
is being read stays readable through its descriptor; bind mounts are not looked for.
"""

from __future__ import annotations

import errno
import functools
import os
import stat as modes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from ullage.core.errors import Refused
from ullage.workspace.limits import Limits
from ullage.workspace.paths import ROOT, WorkspacePath, parse_path, shown

Opener = Callable[[int, tuple[str, ...], int], int]
"""(root descriptor, names, flags) -> descriptor of what the names lead to; raises OSError."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe must not wait for a writer; it means nothing for regular files.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Kind(StrEnum):
    """What stands at a path."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class RootIdentity:
    """Which workspace this is: the real path, and the directory that stood there when it was opened."""

    real: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class Stat:
    """What the file system says of an entry: size in bytes, number of hard links."""

    kind: Kind
    size: int
    links: int


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One entry of a folder. `size` in bytes, given on request and for regular files only."""

    path: WorkspacePath
    kind: Kind
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """Entries by name. `cut`: there are more than the limit; `unnamed`: entries whose name is not UTF-8."""

    entries: tuple[Entry, ...]
    cut: bool = False
    unnamed: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """The first bytes of a file; `cut` when the file goes on."""

    path: WorkspacePath
    data: bytes
    stat: Stat
    cut: bool


class OpenedFile:
    """A regular file of the workspace, open for reading; lives inside `WorkspaceRoot.opened`."""

    __slots__ = ("_descriptor", "path", "stat")

    def __init__(self, descriptor: int, path: WorkspacePath, stat: Stat) -> None:
        self._descriptor = descriptor
        self.path = path
        self.stat = stat

    def chunks(self, size: int = 1 << 16) -> Iterator[bytes]:
        """The bytes from where reading stands, at most `size` at a time."""
        while chunk := os.read(self._descriptor, size):
            yield chunk

    def read(self, at_most: int) -> bytes:
        """Up to `at_most` bytes; fewer only at the end of the file."""
        pieces: list[bytes] = []
        while at_most > 0 and (piece := os.read(self._descriptor, at_most)):
            pieces.append(piece)
            at_most -= len(piece)
        return b"".join(pieces)


class WorkspaceRoot:
    """One workspace folder, held open. Blocking calls; safe to use from several threads, but close it last.

    Every method raises `Refused` with one of these codes: `bad_path`, `outside_workspace`, `symlink`, `not_found`,
    `not_a_file`, `not_a_folder`, `too_large`, `hard_link`, `no_permission`, `unreadable` or `root_gone`.
    """

    __slots__ = ("_descriptor", "_names", "_opener", "identity", "limits")

    def __init__(self, descriptor: int, identity: RootIdentity, given: str, limits: Limits, opener: Opener) -> None:
        self._descriptor = descriptor
        self._names = (identity.real, given)
        self._opener = opener
        self.identity = identity
        self.limits = limits

    @classmethod
    def open(cls, path: str, *, limits: Limits | None = None, opener: Opener | None = None) -> Self:
        """Open a workspace folder. Links are followed here, once: a root may be reached through them.

        Raises:
            Refused: `not_found`, `not_a_folder` or `no_permission`.
        """
        try:
            real = os.path.realpath(path, strict=True)
            descriptor = os.open(real, _FOLDER | os.O_NOFOLLOW)
        except (OSError, ValueError) as error:
            raise _refusal(path, error) from None
        found = os.fstat(descriptor)
        identity = RootIdentity(real, found.st_dev, found.st_ino)
        given = os.path.abspath(path)  # noqa: PTH100
        chosen = opener or (open_beneath if sys.platform == "linux" else open_walking)
        return cls(descriptor, identity, given, limits or Limits(), chosen)

    def close(self) -> None:
        """Let go of the folder; every later call is refused as `root_gone`."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def locate(self, text: str) -> WorkspacePath:
        """Read a path a model or an editor wrote; absolute ones may name the root as given or as resolved."""
        return parse_path(text, self._names, self.limits)

    @contextmanager
    def opened(self, path: WorkspacePath, *, hard_links: bool = True) -> Iterator[OpenedFile]:
        """A regular file, judged after it was opened. With `hard_links` off, one with a second name is refused:
        such a name may lie anywhere, and there is no path to check."""
        descriptor = self._open(path, _FILE)
        try:
            yield OpenedFile(descriptor, path, self._judge(descriptor, path, hard_links=hard_links))
        finally:
            os.close(descriptor)

    def read(self, path: WorkspacePath, *, at_most: int, hard_links: bool = True) -> Content:
        """The first `at_most` bytes of a regular file."""
        with self.opened(path, hard_links=hard_links) as file:
            data = file.read(at_most + 1)
            return Content(path, data[:at_most], file.stat, len(data) > at_most)

    def list(self, path: WorkspacePath = ROOT, *, sizes: bool = False) -> Folder:
        """The entries of a folder by name, links unfollowed; `sizes` costs one more call per file."""
        descriptor = self._open(path, _FOLDER)
        entries: list[Entry] = []
        unnamed = 0
        try:
            with os.scandir(descriptor) as found:
                for item in found:
                    if len(entries) == self.limits.folder_entries:
                        return Folder(tuple(sorted(entries)), cut=True, unnamed=unnamed)
                    if _is_text(item.name):
                        entries.append(_entry(item, path, sizes))
                    else:
                        unnamed += 1
        except OSError as error:
            raise _refusal(str(path), error) from None
        finally:
            os.close(descriptor)
        return Folder(tuple(sorted(entries)), unnamed=unnamed)

    def stat(self, path: WorkspacePath) -> Stat:
        """What stands at `path`; a link anywhere on the way or at the end is refused."""
        descriptor = self._open(WorkspacePath(path.parts[:-1]), _FOLDER)
        try:
            found = os.stat(path.name or ".", dir_fd=descriptor, follow_symlinks=False)
        except (OSError, ValueError) as error:
            raise _refusal(str(path), error) from None
        finally:
            os.close(descriptor)
        if modes.S_ISLNK(found.st_mode):
            raise self._explain(path, OSError(errno.ELOOP, "link"))
        return _stat(found)

    def link_target(self, path: WorkspacePath) -> str | None:
        """The text of the first link on the way to `path`, None when there is none. The target is not visited."""
        link = self._first_link(path.parts)
        return link[1] if link else None

    def _open(self, path: WorkspacePath, flags: int) -> int:
        self._check_root()
        try:
            return self._call_opener(path.parts, flags)
        except (OSError, ValueError) as error:
            raise self._explain(path, error) from None

    def _call_opener(self, parts: tuple[str, ...], flags: int) -> int:
        try:
            return self._opener(self._descriptor, parts, flags)
        except OSError as error:
            # Old kernels do not know openat2, and some sandboxes forbid it. The walk is as strict.
            if error.errno not in (errno.ENOSYS, errno.EPERM) or self._opener is open_walking:
                raise
        self._opener = open_walking
        return open_walking(self._descriptor, parts, flags)

    def _check_root(self) -> None:
        """The descriptor keeps pointing at the old tree whatever happens to its name; say so before using it."""
        here = self.identity
        try:
            found = os.stat(here.real, follow_symlinks=False)  # noqa: PTH116
            same = (found.st_dev, found.st_ino) == (here.device, here.inode)
        except OSError:
            same = False
        if not same or self._descriptor < 0:
            raise Refused(
                f"The workspace folder '{shown(here.real)}' was removed, replaced or closed.",
                hint="Open the folder again in the editor; nothing was read from what stands there now.",
                code="root_gone",
            )

    def _judge(self, descriptor: int, path: WorkspacePath, *, hard_links: bool) -> Stat:
        stat = _stat(os.fstat(descriptor))
        name = shown(str(path))
        if stat.kind is not Kind.FILE:
            what = "a folder" if stat.kind is Kind.FOLDER else "a pipe, socket or device"
            hint = "List it instead." if stat.kind is Kind.FOLDER else "Only regular files are read."
            raise Refused(f"'{name}' is {what}, not a file.", hint=hint, code="not_a_file")
        if stat.size > self.limits.file_bytes:
            message = f"'{name}' has {stat.size:,} bytes; the limit is {self.limits.file_bytes:,}."
            raise Refused(message, hint="Search it with another program.", code="too_large", size=stat.size)
        if stat.links > 1 and not hard_links:
            message = f"'{name}' has {stat.links} names (hard links), which may lie outside the workspace."
            raise Refused(message, hint="Read it on purpose if it is meant.", code="hard_link")
        return stat

    def _explain(self, path: WorkspacePath, error: OSError | ValueError) -> Refused:
        link = self._first_link(path.parts)
        if link is None:
            return _refusal(str(path), error)
        message = f"'{shown(link[0])}' is a link to '{shown(link[1])}'; links are not followed."
        return Refused(message, hint="Name the file by a path without links.", code="symlink")

    def _first_link(self, parts: tuple[str, ...]) -> tuple[str, str] | None:
        try:
            descriptor = os.dup(self._descriptor)
        except OSError:
            return None
        try:
            for index, name in enumerate(parts):
                if modes.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    return "/".join(parts[: index + 1]), os.readlink(name, dir_fd=descriptor)
                descriptor = _enter(descriptor, name)
        except (OSError, ValueError):
            return None
        finally:
            os.close(descriptor)
        return None


# --- the two openers ---------------------------------------------------------------------------------------------

_SYS_OPENAT2 = 437  # the same on x86_64 and aarch64 (linux/unistd.h)
_RESOLVE = 0x08 | 0x04 | 0x02  # BENEATH | NO_SYMLINKS | NO_MAGICLINKS (linux/openat2.h)
_TRIES = 100  # the kernel answers EAGAIN when a rename raced the lookup


def open_beneath(root: int, parts: tuple[str, ...], flags: int) -> int:
    """Open by one `openat2` call, which checks and opens in one step (Linux 5.6 and later)."""
    call, how_type = _openat2()
    how = how_type(flags, 0, _RESOLVE)
    path = os.fsencode("/".join(parts) or ".")
    for _ in range(_TRIES):
        descriptor, code = call(root, path, how)
        if descriptor >= 0:
            return int(descriptor)
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code))


@functools.cache
def _openat2() -> tuple[Callable[[int, bytes, Any], tuple[int, int]], Any]:
    import ctypes  # only where a workspace is opened on Linux

    class OpenHow(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)

    def call(root: int, path: bytes, how: OpenHow) -> tuple[int, int]:
        result = syscall(_SYS_OPENAT2, root, path, ctypes.addressof(how), ctypes.sizeof(how))
        return result, ctypes.get_errno()

    return call, OpenHow


def open_walking(root: int, parts: tuple[str, ...], flags: int) -> int:
    """Open name by name from descriptor to descriptor, following no link: the way of every other system."""
    descriptor = os.dup(root)
    try:
        for name in parts[:-1]:
            descriptor = _enter(descriptor, name)
        last = parts[-1] if parts else "."
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _enter(descriptor: int, name: str) -> int:
    """The descriptor of the folder `name`; the one given is closed, unless this raises."""
    inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
    os.close(descriptor)
    return inner


# --- values ------------------------------------------------------------------------------------------------------

_REFUSALS = {
    errno.ENOENT: ("not_found", "does not exist", "List the folder to see what is there."),
    errno.ENOTDIR: ("not_a_folder", "is not a folder, or lies below a file", "List the folder above it."),
    errno.EACCES: ("no_permission", "may not be read by this user", "Change its permissions first."),
    errno.EPERM: ("no_permission", "may not be read by this user", "Change its permissions first."),
    errno.ELOOP: ("symlink", "is a link; links are not followed", "Name the file by a path without links."),
    errno.EXDEV: ("outside_workspace", "leads out of the workspace", "Give a path inside the workspace."),
    errno.ENXIO: ("not_a_file", "is a socket or device, not a file", "Only regular files are read."),
    errno.ENAMETOOLONG: ("bad_path", "is too long", "Give a shorter path."),
}


def _refusal(path: str, error: OSError | ValueError) -> Refused:
    """The refusal for a failed call; a ValueError is a name the system cannot take."""
    number = error.errno if isinstance(error, OSError) else errno.ENAMETOOLONG
    code, what, hint = _REFUSALS.get(number or 0, ("unreadable", "cannot be read", "Check the disk."))
    return Refused(f"'{shown(path)}' {what}.", hint=hint, code=code)


def _kind(mode: int) -> Kind:
    table = ((modes.S_ISREG, Kind.FILE), (modes.S_ISDIR, Kind.FOLDER), (modes.S_ISLNK, Kind.LINK))
    return next((kind for test, kind in table if test(mode)), Kind.OTHER)


def _stat(found: os.stat_result) -> Stat:
    return Stat(_kind(found.st_mode), found.st_size, found.st_nlink)


def _entry(item: os.DirEntry[str], folder: WorkspacePath, sizes: bool) -> Entry:
    path = folder.child(item.name)
    if item.is_symlink():
        return Entry(path, Kind.LINK)
    if item.is_dir(follow_symlinks=False):
        return Entry(path, Kind.FOLDER)
    if not item.is_file(follow_symlinks=False):
        return Entry(path, Kind.OTHER)
    return Entry(path, Kind.FILE, item.stat(follow_symlinks=False).st_size if sizes else None)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
