"""Paths inside a workspace.

Invariant: a `WorkspacePath` is a tuple of plain names. None of them is empty, `.` or `..`, none holds a slash, a
backslash or a control character, so joined below a directory descriptor they can only lead down. Whether a link
waits on the way is a question to the file system, and `root` asks it when it opens.

Text becomes a `WorkspacePath` in `parse_path` and nowhere else.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from ullage.core.errors import Refused
from ullage.workspace.limits import Limits

_LIMITS = Limits()
_NAME_BYTES = 255  # NAME_MAX of every file system we run on

# What a shell or a browser would expand. We expand nothing, and saying so beats "not found".
_EXPANDABLE = re.compile(r"~[A-Za-z0-9_-]*|\$\{?[A-Za-z_][A-Za-z0-9_]*\}?|%[A-Za-z_]+%")
_SCHEME = re.compile(r"(?:file|https?|ftp|data|vscode[a-z-]*):|[A-Za-z][A-Za-z0-9+.-]*:[/\\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class WorkspacePath:
    """A place under the root, as names from the root down; no names means the root itself."""

    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "/".join(self.parts) or "."

    @property
    def name(self) -> str:
        """The last name, or an empty string for the root."""
        return self.parts[-1] if self.parts else ""

    def child(self, name: str) -> WorkspacePath:
        """The entry `name` of this folder, where `name` came from the file system itself."""
        return WorkspacePath((*self.parts, name))


ROOT = WorkspacePath()


def parse_path(text: str, roots: tuple[str, ...] = (), limits: Limits = _LIMITS) -> WorkspacePath:
    """Read a path as a model or an editor writes it: relative with `/`, or absolute and textually below a root.

    `a//b`, `./a` and `a/` are tidied; `..` is never resolved, since what it means depends on links.

    Raises:
        Refused: `bad_path` for text that is no path, `outside_workspace` for a path that leads out.
    """
    if not text or len(text) > limits.path_characters:
        raise _bad(text, "is empty" if not text else f"is longer than {limits.path_characters} characters")
    if "\\" in text or any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise _bad(text, "holds a backslash or a control character")
    if _SCHEME.match(text):
        raise _bad(text, "is a URL or a drive, not a path")
    parts = tuple(part for part in _below(text, roots).split("/") if part not in ("", "."))
    if ".." in parts:
        raise _outside(text, "climbs with '..'")
    if len(parts) > limits.path_names:
        raise _bad(text, f"has more than {limits.path_names} names")
    if any(len(part.encode()) > _NAME_BYTES for part in parts):
        raise _bad(text, f"has a name longer than {_NAME_BYTES} bytes")
    return WorkspacePath(parts)


def _below(text: str, roots: tuple[str, ...]) -> str:
    if _EXPANDABLE.fullmatch(text.split("/", 1)[0]):
        raise _outside(text, "starts with something a shell would expand")
    if not text.startswith("/"):
        return text
    for root in roots:
        # The slash keeps a sibling such as `/work-old` out of `/work`.
        prefix = root.rstrip("/") + "/"
        if f"{text}/".startswith(prefix):
            return text[len(prefix) :]
    raise _outside(text, "is absolute and not below the workspace folder")


def shown(text: str) -> str:
    """A name as it may stand in a message: what would not be visible, or would turn the text round, is escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def _bad(text: str, why: str) -> Refused:
    hint = "Give a path relative to the workspace folder, with '/' between names."
    return Refused(f"The path '{shown(text[:200])}' {why}.", hint=hint, code="bad_path")


def _outside(text: str, why: str) -> Refused:
    hint = "Only files of the workspace can be reached; give a path relative to its folder."
    return Refused(f"The path '{shown(text[:200])}' {why}.", hint=hint, code="outside_workspace")
