"""What the door says of what it finds: entries, their kinds, and the refusals for what it does not open."""

from __future__ import annotations

import errno
import os
import stat as modes
from dataclasses import dataclass
from enum import StrEnum

from ullage.core.errors import Refused
from ullage.workspace.paths import WorkspacePath, shown


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


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did beside the content: folders it made, and how many names the replaced file had."""

    folders: tuple[str, ...]
    links: int


_REFUSALS = {
    errno.ENOENT: ("not_found", "does not exist", "List the folder to see what is there."),
    errno.ENOTDIR: ("not_a_folder", "is not a folder, or lies below a file", "List the folder above it."),
    errno.EACCES: ("no_permission", "may not be opened by this user", "Change its permissions first."),
    errno.EPERM: ("no_permission", "may not be opened by this user", "Change its permissions first."),
    errno.EROFS: ("no_permission", "lies on a disk that can only be read", "Choose another place."),
    errno.EEXIST: ("exists", "is there already", "Read it first, then change it."),
    errno.ENOSPC: ("disk_full", "cannot be written, the disk is full", "Free some space first."),
    errno.EDQUOT: ("disk_full", "cannot be written, the quota is used up", "Free some space first."),
    errno.ELOOP: ("symlink", "is a link; links are not followed", "Name the file by a path without links."),
    errno.EXDEV: ("outside_workspace", "leads out of the workspace", "Give a path inside the workspace."),
    errno.ENXIO: ("not_a_file", "is a socket or device, not a file", "Only regular files are read."),
    errno.ENAMETOOLONG: ("bad_path", "is too long", "Give a shorter path."),
}


def refusal(path: str, error: OSError | ValueError) -> Refused:
    """The refusal for a failed call; a ValueError is a name the system cannot take."""
    number = error.errno if isinstance(error, OSError) else errno.ENAMETOOLONG
    code, what, hint = _REFUSALS.get(number or 0, ("unreadable", "cannot be read or written", "Check the disk."))
    return Refused(f"'{shown(path)}' {what}.", hint=hint, code=code)


def _kind(mode: int) -> Kind:
    table = ((modes.S_ISREG, Kind.FILE), (modes.S_ISDIR, Kind.FOLDER), (modes.S_ISLNK, Kind.LINK))
    return next((kind for test, kind in table if test(mode)), Kind.OTHER)


def stat_of(found: os.stat_result) -> Stat:
    return Stat(_kind(found.st_mode), found.st_size, found.st_nlink)


def entry_of(item: os.DirEntry[str], folder: WorkspacePath, sizes: bool) -> Entry:
    path = folder.child(item.name)
    if item.is_symlink():
        return Entry(path, Kind.LINK)
    if item.is_dir(follow_symlinks=False):
        return Entry(path, Kind.FOLDER)
    if not item.is_file(follow_symlinks=False):
        return Entry(path, Kind.OTHER)
    return Entry(path, Kind.FILE, item.stat(follow_symlinks=False).st_size if sizes else None)


def is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
