"""The door to a workspace's files: whoever reads or changes one comes through here.

Invariant: every descriptor made here names something below the root directory that was resolved when the workspace
was opened, reached without following a single link.

How: the root is held as a directory descriptor; nothing is ever looked up by an absolute path again. `openers` turns
names into descriptors, `writing` changes a file of a folder that is held open. What was opened is judged by `fstat` on
the descriptor, never by a second look at the name.

What would break it: following a link "because it stays inside", or looking at a name twice. A folder that is moved out
of the workspace while it is in use stays reachable through its descriptor; bind mounts are not looked for.
"""

from __future__ import annotations

import errno
import os
import stat as modes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from ullage.core.errors import Refused
from ullage.workspace import writing
from ullage.workspace.entries import (
    Content,
    Entry,
    Folder,
    Kind,
    RootIdentity,
    Stat,
    Written,
    entry_of,
    is_text,
    refusal,
    stat_of,
)
from ullage.workspace.limits import Limits
from ullage.workspace.openers import FILE, FOLDER, Opener, enter, open_beneath, open_walking
from ullage.workspace.paths import ROOT, WorkspacePath, parse_path, shown


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
    `not_a_file`, `not_a_folder`, `too_large`, `hard_link`, `no_permission`, `unreadable` or `root_gone`; those that
    change something also `changed`, `exists` or `disk_full`.
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
            descriptor = os.open(real, FOLDER | os.O_NOFOLLOW)
        except (OSError, ValueError) as error:
            raise refusal(path, error) from None
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
        descriptor = self._open(path, FILE)
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
        descriptor = self._open(path, FOLDER)
        entries: list[Entry] = []
        unnamed = 0
        try:
            with os.scandir(descriptor) as found:
                for item in found:
                    if len(entries) == self.limits.folder_entries:
                        return Folder(tuple(sorted(entries)), cut=True, unnamed=unnamed)
                    if is_text(item.name):
                        entries.append(entry_of(item, path, sizes))
                    else:
                        unnamed += 1
        except OSError as error:
            raise refusal(str(path), error) from None
        finally:
            os.close(descriptor)
        return Folder(tuple(sorted(entries)), unnamed=unnamed)

    def stat(self, path: WorkspacePath) -> Stat:
        """What stands at `path`; a link anywhere on the way or at the end is refused."""
        descriptor = self._open(WorkspacePath(path.parts[:-1]), FOLDER)
        try:
            found = os.stat(path.name or ".", dir_fd=descriptor, follow_symlinks=False)
        except (OSError, ValueError) as error:
            raise refusal(str(path), error) from None
        finally:
            os.close(descriptor)
        if modes.S_ISLNK(found.st_mode):
            raise self._explain(path, OSError(errno.ELOOP, "link"))
        return stat_of(found)

    def write(self, path: WorkspacePath, data: bytes, *, expected: str | None) -> Written:
        """Give a file new content, all of it or nothing; folders that are missing on the way are made.

        `expected` is the sha256 of what stands there, None where nothing may: anything else is refused as `changed` or
        `exists`, and nothing is written.
        """
        self._check_writable(path, len(data))
        try:
            folder, made = writing.make_folders(self._descriptor, path.parts[:-1])
            try:
                before = writing.standing(folder, path.name, self.limits.written_bytes)
                self._check_expected(path, before, expected)
                writing.put(folder, path.name, data, before)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._explain(path, error) from None
        return Written(made, before.stat.st_nlink if before else 1)

    def remove(self, path: WorkspacePath, *, expected: str) -> None:
        """Delete a regular file whose content has this sha256."""
        self._check_writable(path, 0)
        folder = self._open(WorkspacePath(path.parts[:-1]), FOLDER)
        try:
            before = writing.standing(folder, path.name, self.limits.written_bytes)
            self._check_expected(path, before, expected)
            assert before is not None
            writing.remove(folder, path.name, before)
        except OSError as error:
            raise self._explain(path, error) from None
        finally:
            os.close(folder)

    def _check_writable(self, path: WorkspacePath, size: int) -> None:
        self._check_root()
        if not path.parts:
            raise Refused("The workspace folder itself is no file.", hint="Name a file in it.", code="not_a_file")
        if size > self.limits.written_bytes:
            message = f"{size:,} bytes are more than a file may be given: {self.limits.written_bytes:,}."
            raise Refused(message, hint="Write less, or several files.", code="too_large", size=size)

    def _check_expected(self, path: WorkspacePath, before: writing.Standing | None, expected: str | None) -> None:
        if before is None and expected is not None:
            raise refusal(str(path), FileNotFoundError(errno.ENOENT, "gone"))
        if before is not None and expected is None:
            raise refusal(str(path), FileExistsError(errno.EEXIST, "exists"))
        if before is not None and before.sha256 != expected:
            raise writing.changed()

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
        stat = stat_of(os.fstat(descriptor))
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
            return refusal(str(path), error)
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
                descriptor = enter(descriptor, name)
        except (OSError, ValueError):
            return None
        finally:
            os.close(descriptor)
        return None
