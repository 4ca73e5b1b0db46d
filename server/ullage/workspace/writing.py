"""Changing one file of a folder that is held open.

Invariants: a name has its old content or all of the new one, whatever fails in between; nothing is written through a
link; a file that is not what the caller expects is left as it is. What is replaced is the *name*: a second name (hard
link) of the old file, wherever it lies, keeps the old content.

How: a new file beside it, synced, then renamed over the name; a name that must be free is taken with `link`, which
never replaces. What stands there is hashed through one descriptor and looked at once more just before the rename, so
only a write that begins and ends between those two calls could be lost.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat as modes
from contextlib import suppress
from dataclasses import dataclass

from ullage.core.errors import Refused
from ullage.workspace.openers import FILE, FOLDER

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""How a file system without hard links answers `link`."""
_KEPT_BITS = 0o1777
"""Mode bits that a rewritten file keeps; the kernel, too, drops setuid and setgid when a file is written to."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands at a name: how the system sees it, and the sha256 of its bytes."""

    stat: os.stat_result
    sha256: str


def make_folders(root: int, names: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """The descriptor of the folder that the names lead to, those that were missing made, and the paths of these.

    Raises:
        OSError: a link or a file stands in the way, or the system refused.
    """
    descriptor, made = os.dup(root), list[str]()
    try:
        for depth, name in enumerate(names, 1):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=descriptor)
                made.append("/".join(names[:depth]))
            inner = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, tuple(made)


def standing(folder: int, name: str, most: int) -> Standing | None:
    """What stands at a name, None for nothing.

    Raises:
        Refused: `not_a_file`, or `too_large` for more than `most` bytes.
        OSError: a link, or the system refused.
    """
    try:
        descriptor = os.open(name, FILE | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(descriptor)
        if not modes.S_ISREG(found.st_mode):
            raise Refused("Only regular files can be changed.", hint="Choose another path.", code="not_a_file")
        if found.st_size > most:
            message = f"The file has {found.st_size:,} bytes; files of up to {most:,} can be changed."
            raise Refused(message, hint="Change it with another program.", code="too_large", size=found.st_size)
        digest = hashlib.sha256()
        while chunk := os.read(descriptor, 1 << 20):
            digest.update(chunk)
        return Standing(found, digest.hexdigest())
    finally:
        os.close(descriptor)


def put(folder: int, name: str, data: bytes, before: Standing | None) -> None:
    """Give the name this content. `before` is what `standing` found there; mode, and owner where allowed, stay.

    Raises:
        Refused: `changed`, when something else stands there by now.
        OSError: the system refused; what stood there still stands.
    """
    temporary = f".ullage-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, _NEW, 0o666 if before is None else 0o600, dir_fd=folder)
    try:
        try:
            _fill(descriptor, data)
            if before is not None:
                _keep(descriptor, before.stat)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if before is None:
            _take_name(folder, temporary, name)
        else:
            _check_same(folder, name, before)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
    os.fsync(folder)


def remove(folder: int, name: str, before: Standing) -> None:
    """Take the name away.

    Raises:
        Refused: `changed`, when something else than `before` stands there by now.
        OSError: the system refused.
    """
    _check_same(folder, name, before)
    os.unlink(name, dir_fd=folder)
    os.fsync(folder)


def _fill(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _keep(descriptor: int, old: os.stat_result) -> None:
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):  # a file of another owner becomes ours, as in every editor
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, modes.S_IMODE(old.st_mode) & _KEPT_BITS)


def _take_name(folder: int, temporary: str, name: str) -> None:
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, "exists") from None
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _check_same(folder: int, name: str, before: Standing) -> None:
    try:
        now = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    if now is None or _identity(now) != _identity(before.stat):
        raise changed()


def changed() -> Refused:
    """The refusal of a file that is not what it was."""
    return Refused(
        "The file changed on disk since it was read; nothing was written.", hint="Read it again.", code="changed"
    )


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
