"""The line of an output that tells how a command went. Pure."""

from __future__ import annotations

import re
from typing import Final

_WRONG: Final = re.compile(r"error|fail|panic|exception|not found|denied|no such", re.IGNORECASE)
_TESTS: Final = re.compile(
    r"\b\d+ (?:passed|failed|passing|failing|tests?)\b|^(?:ok|FAIL)\s+\S", re.IGNORECASE | re.MULTILINE
)
_LOOKED_AT: Final = 4_000
"""Characters at an output's end that are looked at."""
_DETAIL: Final = 300
"""Most characters of a detail."""


def newest_error(output: str) -> str | None:
    """The newest line that names an error, else the last one; None where there is no line."""
    lines = _lines(output)
    telling = [line for line in lines if _WRONG.search(line)]
    return (telling or lines)[-1][:_DETAIL] if lines else None


def counted_tests(output: str) -> str | None:
    """The newest line that counts tests."""
    return next((line[:_DETAIL] for line in reversed(_lines(output)) if _TESTS.search(line)), None)


def _lines(output: str) -> list[str]:
    return [line.strip() for line in output[-_LOOKED_AT:].splitlines() if line.strip()]
