"""Matching a regular expression in a process of its own.

Why not in a thread: `re` holds the interpreter's lock for a whole match and cannot be interrupted, so one pattern
such as `(a+)+$` would stop every session of the server, beyond the reach of any time limit. A process can be
killed. It has no access to files beyond what any process of ours has; it is never given a path.
"""

from __future__ import annotations

import json
import select
import struct
import subprocess
import sys
from importlib.util import find_spec
from typing import Any, Self

from ullage.core.errors import BadInput
from ullage.tools.limits import Limits
from ullage.workspace.walk import Budget, Stop

_LOOK_UP_S = 0.05  # how often a waiting call looks at its budget


class BudgetEnded(Exception):
    """The time is up or the call was cancelled; the process is gone."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop)
        self.stop = stop


class Matcher:
    """A compiled pattern in its process, for one call. Leaving the block ends the process."""

    def __init__(self, pattern: str, ignore_case: bool, limits: Limits, budget: Budget) -> None:
        self._order = {
            "pattern": pattern,
            "ignore_case": ignore_case,
            "around": limits.hit_characters,
            "most": limits.entries + 1,
        }
        self._budget = budget
        spec = find_spec("ullage.tools.match_child")
        assert spec is not None and spec.origin is not None
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", spec.origin],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        try:
            answer = self._ask(json.dumps(self._order).encode())
        except BaseException:
            self._end()
            raise
        if answer:
            self._end()
            raise BadInput(
                f"The pattern is no regular expression: {answer['error']}.",
                hint="Escape what is meant literally, such as '\\(' or '\\.'.",
                code="bad_pattern",
            )
        return self

    def __exit__(self, *_error: object) -> None:
        self._end()

    def hits(self, content: bytes) -> list[tuple[int, str]]:
        """Line numbers and lines that match.

        Raises:
            BudgetEnded: while matching.
        """
        return [(number, line) for number, line in self._ask(content)]

    def _ask(self, frame: bytes) -> Any:
        sink, source = self._process.stdin, self._process.stdout
        assert sink is not None and source is not None
        try:
            sink.write(struct.pack(">I", len(frame)) + frame)
            sink.flush()
        except BrokenPipeError:
            raise _died() from None
        while not select.select([source], [], [], _LOOK_UP_S)[0]:
            if (stop := self._budget.stop()) is not None:
                raise BudgetEnded(stop)
        line = source.readline()
        if not line:
            raise _died()
        return json.loads(line)

    def _end(self) -> None:
        self._process.kill()
        try:
            self._process.communicate()  # closes the pipes and waits
        except (BrokenPipeError, ValueError):
            self._process.wait()


def _died() -> BadInput:
    hint = "Try a simpler pattern, or search a smaller folder."
    return BadInput("The search process ended by itself.", hint=hint, code="search_failed")
