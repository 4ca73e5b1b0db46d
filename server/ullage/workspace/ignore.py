"""`.gitignore` files, nested as git nests them: the deepest file that says something decides.

`.git` is never entered. Rules outside the workspace (a user's global file, `.git/info/exclude`) are not read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ullage.core.errors import Refused
from ullage.workspace.paths import ROOT, WorkspacePath
from ullage.workspace.root import WorkspaceRoot

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# A rule becomes a backtracking regular expression, and a hostile one (`*a*a*a*a*b`) would hold the whole process.
# No real rule needs more stars than this.
_STARS_IN_A_NAME = 3
_STARS = 6


class IgnoreRules:
    """What is left out of a walk that starts at `start`. Rules are read once per folder, through the door.

    A start that is itself ignored was named on purpose: then the rules above it do not count.
    """

    def __init__(self, root: WorkspaceRoot, start: WorkspacePath = ROOT) -> None:
        self._root = root
        self._specs: dict[tuple[str, ...], GitIgnoreSpec | None] = {}
        self._top = 0
        named = (WorkspacePath(start.parts[:depth]) for depth in range(1, len(start.parts) + 1))
        if any(self.ignored(path, is_folder=True) for path in named):
            self._top = len(start.parts)

    def ignored(self, path: WorkspacePath, is_folder: bool) -> bool:
        """Whether `path` is left out; its folders are taken to have been asked about before."""
        if path.name == ".git":
            return True
        for depth in range(len(path.parts) - 1, self._top - 1, -1):
            spec = self._spec(path.parts[:depth])
            if spec is None:
                continue
            inside = "/".join(path.parts[depth:]) + ("/" if is_folder else "")
            verdict = spec.check_file(inside).include
            if verdict is not None:
                return verdict
        return False

    def _spec(self, folder: tuple[str, ...]) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            self._specs[folder] = self._load(folder)
        return self._specs[folder]

    def _load(self, folder: tuple[str, ...]) -> GitIgnoreSpec | None:
        limit = self._root.limits.ignore_file_bytes
        try:
            content = self._root.read(WorkspacePath((*folder, ".gitignore")), at_most=limit)
        except Refused:
            return None  # absent, a link, not a file: git does not follow a linked .gitignore either
        if content.cut:
            return None
        lines = content.data.decode("utf-8-sig", "replace").splitlines()
        return _compile([line for line in lines if _is_harmless(line)])


def _is_harmless(line: str) -> bool:
    names = line.split("/")
    return line.count("*") <= _STARS and all(name.count("*") <= _STARS_IN_A_NAME for name in names)


def _compile(lines: list[str]) -> GitIgnoreSpec | None:
    from pathspec import GitIgnoreSpec  # 75 ms; only a walk needs it

    good: list[str] = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except (ValueError, re.error):
            continue  # one bad line must not switch the others off
        good.append(line)
    return GitIgnoreSpec.from_lines(good) if good else None
