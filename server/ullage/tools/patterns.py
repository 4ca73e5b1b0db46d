"""Path patterns: `*` and `?` inside one name, `**` over any number of folders, `[...]`, `{a,b}`.

Names are matched one by one, so no pattern takes longer than (names of the pattern) x (names of the path).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate

from ullage.core.errors import BadInput
from ullage.tools.job import Job
from ullage.workspace.paths import WorkspacePath

_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_ANY = None  # stands for `**`


class PathPattern:
    """A pattern, ready to match paths below `base`. Letters count as they are written."""

    def __init__(self, alternatives: list[tuple[re.Pattern[str] | None, ...]], base: WorkspacePath) -> None:
        self._alternatives = alternatives
        self._depth = len(base.parts)

    def matches(self, path: WorkspacePath) -> bool:
        """Whether any alternative matches the whole path below the base."""
        names = path.parts[self._depth :]
        return any(_match(pattern, names) for pattern in self._alternatives)


def parse_pattern(job: Job, text: str, base: WorkspacePath) -> PathPattern:
    """Read a pattern by the same rules as a path; without a slash it is looked for at any depth.

    Raises:
        Refused: the pattern leads out of the workspace.
        BadInput: it is too long, or its braces stand for too many patterns.
    """
    if len(text) > job.limits.pattern_characters:
        raise BadInput(
            f"The pattern is longer than {job.limits.pattern_characters} characters.",
            hint="Give a shorter one.",
        )
    prefix = ("**",) if "/" not in text else ()
    locate: Callable[[str], WorkspacePath] = job.root.locate
    expanded = [(*prefix, *locate(one).parts) for one in _expand(text, job.limits.alternatives)]
    return PathPattern([tuple(_compile(name) for name in names) for names in expanded], base)


def _expand(text: str, most: int) -> list[str]:
    """The patterns that braces stand for, innermost braces first."""
    done: list[str] = []
    waiting = [text]
    while waiting:
        current = waiting.pop()
        braces = _BRACES.search(current)
        if braces is None:
            done.append(current)
        else:
            head, tail = current[: braces.start()], current[braces.end() :]
            waiting += [f"{head}{choice}{tail}" for choice in reversed(braces[1].split(","))]
        if len(done) + len(waiting) > most:
            raise BadInput(f"The braces stand for more than {most} patterns.", hint="Use fewer alternatives.")
    return done


def _compile(name: str) -> re.Pattern[str] | None:
    # The standard translation uses atomic groups: stars do not backtrack into each other.
    return _ANY if name == "**" else re.compile(translate(name))


def _match(pattern: tuple[re.Pattern[str] | None, ...], names: tuple[str, ...]) -> bool:
    """Whether the names match: all reachable positions in the pattern, moved on name by name."""
    positions = _skip(pattern, {0})
    for name in names:
        moved = set[int]()
        for position in positions:
            if position == len(pattern):
                continue
            step = pattern[position]
            if step is None:
                moved.add(position)
            elif step.match(name):
                moved.add(position + 1)
        positions = _skip(pattern, moved)
    return len(pattern) in positions


def _skip(pattern: tuple[re.Pattern[str] | None, ...], positions: set[int]) -> set[int]:
    """Add what can be reached without a name: `**` may stand for no folder at all."""
    for position in sorted(positions):
        while position < len(pattern) and pattern[position] is None:
            position += 1
            positions.add(position)
    return positions
