"""A model's ledger as sections: its lines under the seven headings, whatever order and form they came in.

Invariant: no line is lost but blank ones and remarks that there is nothing, and a line inside a block of code is never
changed or taken for a heading. Indentation stays. Reading what `join_sections` wrote and joining it gives the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ullage.core.exact import HEADINGS, known_heading

NO_EVIDENCE = "- No evidence."
"""What stands under a heading that nothing is known for."""

_FENCE = re.compile(r"^\s*(?:[-*+]\s+|\d{1,3}[.)]\s+)?(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$")
_BOLD = re.compile(r"^ {0,3}(?:\*\*|__)(.+?)(?:\*\*|__):?[ \t]*$")
_NUMBER = re.compile(r"^\d{1,2}[.):]?\s+")
_NOTHING = re.compile(
    r"[-*+\s]*(?:\(?(?:no evidence|none|nothing|n/a|not applicable|unknown|tbd|todo|\.{3}|…)(?: yet| so far)?[\s.)]*)?",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Sections:
    """`found` are lines by heading; `before` are those above the first of them."""

    before: list[str] = field(default_factory=list)
    found: dict[str, list[str]] = field(default_factory=dict)

    def without(self, drop: Callable[[str], bool]) -> Sections:
        """The sections without lines for which `drop` holds. Code stays, and items that the next line goes on with."""
        kept = {heading: list(_kept(lines, drop)) for heading, lines in self.found.items()}
        return Sections(list(_kept(self.before, drop)), kept)


def read_sections(text: str) -> Sections:
    """A text's lines by heading. A heading that is none of the seven is told in bold where it stands."""
    read = Sections()
    current = read.before
    for line, code in _marked(text.splitlines()):
        known = None if code else _known(line)
        other = None if code else _HEADING.match(line)
        if known is not None:
            current = read.found.setdefault(known, [])
        elif other is not None:
            title = other[1].strip("* ")
            current += [f"**{title}**"] if title else []
        else:
            current.append(line)
    return read


def join_sections(sections: Sections) -> str:
    """Each heading once, in order, as a heading of level two; what stood before the first belongs to it."""
    shown = {**sections.found, HEADINGS[0]: [*sections.before, *sections.found.get(HEADINGS[0], [])]}
    return "\n".join(f"## {heading}\n" + _body(shown.get(heading, [])) for heading in HEADINGS)


def is_blank(lines: Sequence[str]) -> bool:
    """Whether lines say nothing: they are blank, or say that there is nothing to say."""
    return all(_NOTHING.fullmatch(line.strip()) for line in lines)


def _body(lines: list[str]) -> str:
    """The lines of a section; blank ones only in code, and code that was left open is closed."""
    marked = _marked(lines)
    kept = [line if code else line.rstrip() for line, code in marked if code or line.strip()]
    if is_blank(kept):
        return NO_EVIDENCE
    return "\n".join([*kept, *_closing(lines)])


def _kept(lines: list[str], drop: Callable[[str], bool]) -> Iterator[str]:
    for place, (line, code) in enumerate(_marked(lines)):
        goes_on = lines[place + 1 : place + 2] and lines[place + 1][:1] in (" ", "\t") and lines[place + 1].strip()
        if code or goes_on or not drop(line):
            yield line


def _known(line: str) -> str | None:
    """The ledger's heading that a line is: as Markdown, in bold, or by itself, with a number or a colon."""
    found = _HEADING.match(line) or _BOLD.match(line)
    title = (found[1] if found else line).strip("*_: \t")
    return known_heading(_NUMBER.sub("", title).strip("*_: \t"))


# --- code ---


def _marked(lines: Sequence[str]) -> list[tuple[str, bool]]:
    """Each line, and whether it is code: a fence, or what stands between two."""
    marked: list[tuple[str, bool]] = []
    while len(marked) < len(lines):
        start = len(marked)
        opened = _FENCE.match(lines[start])
        end = _end(lines, start, opened[1]) if opened else start + 1
        marked += [(line, opened is not None) for line in lines[start:end]]
    return marked


def _end(lines: Sequence[str], start: int, fence: str) -> int:
    """Index behind a block of code. One that nothing closes ends before the next of the seven headings, if any."""
    closed = next((place for place in range(start + 1, len(lines)) if _closes(lines[place], fence)), None)
    if closed is not None:
        return closed + 1
    later = range(start + 1, len(lines))
    return next((place for place in later if _HEADING.match(lines[place]) and _known(lines[place])), len(lines))


def _closes(line: str, fence: str) -> bool:
    found = _FENCE.match(line)
    return found is not None and found[1].startswith(fence) and not found[2].strip()


def _closing(lines: Sequence[str]) -> tuple[str, ...]:
    """The fence that a section's lines lack, if any."""
    start = 0
    while start < len(lines):
        opened = _FENCE.match(lines[start])
        end = _end(lines, start, opened[1]) if opened else start + 1
        if opened and not (end > start + 1 and _closes(lines[end - 1], opened[1])):
            return (opened[1],)
        start = end
    return ()
