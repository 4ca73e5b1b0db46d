"""Workspace folders as editors name them (URIs), and which of them a person trusts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pygls.uris import to_fs_path

from ullage.core.errors import BadInput, UllageError

if TYPE_CHECKING:
    from ullage.sessions.host import Host


def path_of(name: str) -> str:
    """The absolute path that a file URI or a path names.

    Raises:
        BadInput: another kind of URI, or no absolute path.
    """
    path = to_fs_path(name) if name.startswith("file:") else name
    if not path or not path.startswith("/") or "\0" in path:
        raise BadInput(
            f"{name[:200]!r} is neither a file URI nor an absolute path.",
            hint="Open a folder of this machine.",
            code="bad_root",
        )
    return path


class Roots:
    """The folders of one client, put into the host's books."""

    def __init__(self, host: Host, trusted: Iterable[str], complain: Callable[[str], None]) -> None:
        """`complain` tells the person of a folder that cannot be used; the others are."""
        self._host = host
        self._complain = complain
        self._trusted = {os.path.realpath(path) for name in trusted if (path := self._path(name))}

    def add(self, uri: str) -> None:
        """The editor has opened a folder."""
        path = self._path(uri)
        if path is None:
            return
        try:
            self._host.add_root(path, trusted=os.path.realpath(path) in self._trusted)
        except UllageError as error:
            self._complain(f"{error.report.message} {error.report.hint}")

    def remove(self, uri: str) -> None:
        """The editor has closed a folder."""
        if path := self._path(uri):
            self._host.remove_root(os.path.realpath(path))

    def trust(self, name: str, trusted: bool) -> str:
        """A person's word on an open workspace; its real path.

        Raises:
            BadInput: no such workspace is open.
        """
        real = self.named(name)
        self._host.set_trust(real, trusted)
        (self._trusted.add if trusted else self._trusted.discard)(real)
        return real

    def named(self, name: str | None) -> str:
        """Real path of the open workspace of that name; without one, of the only one.

        Raises:
            BadInput: no such workspace is open, or none was named and there is more than one.
        """
        known = [root.path for root in self._host.roots()]
        wanted = known if name is None else [os.path.realpath(path_of(name))]
        if len(wanted) == 1 and wanted[0] in known:
            return wanted[0]
        if name is None and known:
            raise BadInput("Several workspaces are open.", hint="Name one as root.", code="which_root")
        raise BadInput(
            "No workspace is open." if name is None else f"The workspace {name[:200]} is not open.",
            hint="Open the folder in the editor first.",
            code="unknown_root",
        )

    def _path(self, name: str) -> str | None:
        try:
            return path_of(name)
        except BadInput as error:
            self._complain(f"{error.report.message} {error.report.hint}")
            return None
