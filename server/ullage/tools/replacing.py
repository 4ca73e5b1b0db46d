"""Finding the one place that a model means, and saying what there is when there are none or several. Pure."""

from __future__ import annotations

from ullage.core.errors import BadInput
from ullage.workspace.encoding import Decoded, Neutral, spliced
from ullage.workspace.paths import shown

_CANDIDATES = 5
"""Most places named in an error."""
_LINE = 120
"""Characters of a line shown there."""


def replaced(name: str, file: Decoded, old: str, new: str, *, every: bool) -> Decoded:
    """The file with one text replaced by another; line ends are no difference.

    Raises:
        BadInput: `not_found_in_file`, `ambiguous` or `nothing_to_do`.
        Refused: `not_encodable`.
    """
    wanted = old.replace("\r\n", "\n")
    if wanted == new.replace("\r\n", "\n"):
        raise BadInput("old_text and new_text are the same.", hint="Say what shall change.", code="nothing_to_do")
    neutral = Neutral(file)
    places = _places(neutral.text, wanted)
    if not places:
        raise missing(name, neutral.text, wanted.split("\n"))
    if len(places) > 1 and not every:
        raise ambiguous(name, neutral.text, places)
    return spliced(file, [neutral.span(at, at + len(wanted), new) for at in places])


def _places(text: str, wanted: str) -> list[int]:
    """Where a text stands, each place behind the one before."""
    found, at = [], text.find(wanted)
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + len(wanted))
    return found


def ambiguous(name: str, text: str, places: list[int]) -> BadInput:
    """An error for a text that stands in several places, which it names."""
    lines = [f"line {text.count(chr(10), 0, at) + 1}" for at in places[:_CANDIDATES]]
    more = f" and {len(places) - _CANDIDATES} more" if len(places) > _CANDIDATES else ""
    shown_lines = "\n".join(_numbered(text, text.count("\n", 0, at)) for at in places[:_CANDIDATES])
    return BadInput(
        f"The text stands {len(places)} times in '{name}', at {', '.join(lines)}{more}; nothing was changed.",
        hint=f"Give more of the lines around the one that is meant.\n{shown_lines}",
        code="ambiguous",
    )


def missing(name: str, text: str, wanted: list[str]) -> BadInput:
    """An error for lines that stand nowhere, with the lines most like the first that says anything."""
    first = next((line.strip() for line in wanted if line.strip()), "")
    words = set(first.split())
    near = []
    for number, line in enumerate(text.split("\n")):
        alike = 2.0 if first and line.strip() == first else _likeness(words, line)
        if alike >= 0.5:
            near.append((-alike, number))
    shown_lines = "\n".join(_numbered(text, number) for _, number in sorted(near)[:_CANDIDATES])
    hint = "Read the file again: every space and line counts."
    return BadInput(
        f"The text does not stand in '{name}'; nothing was changed.",
        hint=f"{hint} Lines most like it:\n{shown_lines}" if near else hint,
        code="not_found_in_file",
    )


def _likeness(words: set[str], line: str) -> float:
    """The share of words that two lines have in common."""
    have = set(line.split())
    return len(words & have) / len(words | have) if words and have else 0.0


def _numbered(text: str, number: int) -> str:
    line = text.split("\n")[number]
    return f"{number + 1:>6}\t{shown(line[:_LINE])}{'…' if len(line) > _LINE else ''}"
