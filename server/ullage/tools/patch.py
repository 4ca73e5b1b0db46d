"""The text of a patch, and what it makes of a file. Pure.

A patch names its places by lines that stand there and never by numbers, which models get wrong. Each hunk's context and
removed lines must stand in one place behind the hunk before it, or in the first one behind the line that its `@@`
names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ullage.core.errors import BadInput
from ullage.tools.replacing import ambiguous, missing
from ullage.workspace.encoding import Decoded, Neutral, Span, spliced

FORMAT = """Format: '*** Begin Patch', then for each file '*** Add File: path' with lines that begin with '+', \
'*** Delete File: path', or '*** Update File: path' with hunks, then '*** End Patch'. A hunk begins with '@@', which a \
line that stands somewhere before it may follow; its lines begin with ' ' (kept), '-' (removed) or '+' (added)."""

_BEGIN, _END, _LAST = "*** Begin Patch", "*** End Patch", "*** End of File"


class Act(StrEnum):
    ADD = "Add"
    UPDATE = "Update"
    DELETE = "Delete"


@dataclass(slots=True)
class Hunk:
    """Rows are pairs of a sign (' ', '-' or '+') and a line. `line` is where it stands in the patch, from 1."""

    line: int
    anchor: str
    rows: list[tuple[str, str]] = field(default_factory=list)

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.rows if sign != "+"]


@dataclass(slots=True)
class FilePatch:
    act: Act
    path: str
    line: int
    hunks: list[Hunk] = field(default_factory=list)


def parse_patch(text: str) -> list[FilePatch]:
    """Read a patch.

    Raises:
        BadInput: `bad_patch` names the line and what is expected there.
    """
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0].strip() != _BEGIN or lines[-1].strip() != _END or len(lines) < 2:
        raise _bad(1 if lines[0].strip() != _BEGIN else len(lines), f"the patch stands between {_BEGIN} and {_END}")
    files: list[FilePatch] = []
    for number, line in enumerate(lines[1:-1], 2):
        if line.rstrip() == _LAST:
            continue
        if line.startswith("*** "):
            files.append(_file(line, number))
        elif not files:
            raise _bad(number, "a file comes first, such as '*** Update File: path'")
        else:
            _take(files[-1], line, number)
    for each in files:
        _check(each)
    if not files:
        raise _bad(2, "a patch names a file at least")
    return files


def _file(line: str, number: int) -> FilePatch:
    for act in Act:
        head = f"*** {act} File: "
        if line.startswith(head) and line[len(head) :].strip():
            return FilePatch(act, line[len(head) :].strip(), number)
    raise _bad(number, "'*** Add File: path', '*** Update File: path' or '*** Delete File: path'")


def _take(file: FilePatch, line: str, number: int) -> None:
    if file.act is Act.UPDATE and (line == "@@" or line.startswith("@@ ")):
        file.hunks.append(Hunk(number, line[3:]))
        return
    if not file.hunks:
        file.hunks.append(Hunk(number, ""))
    sign, text = (line[0], line[1:]) if line else (" ", "")
    allowed = {Act.UPDATE: " -+", Act.ADD: "+", Act.DELETE: ""}[file.act]
    if sign not in allowed:
        raise _bad(number, f"a line that begins with one of {', '.join(map(repr, allowed))}" if allowed else "no lines")
    file.hunks[-1].rows.append((sign, text))


def _check(file: FilePatch) -> None:
    if file.act is Act.UPDATE and not file.hunks:
        raise _bad(file.line, "hunks follow the file that is updated")
    for hunk in file.hunks if file.act is Act.UPDATE else ():
        if all(sign == " " for sign, _ in hunk.rows):
            raise _bad(hunk.line, "a hunk adds or removes a line at least")
        if not hunk.old and not hunk.anchor:
            raise _bad(hunk.line, "a hunk that only adds needs a line that is kept, or one after '@@'")


def _bad(number: int, expected: str) -> BadInput:
    return BadInput(f"Line {number} of the patch: {expected}.", hint=FORMAT, code="bad_patch")


# --- what it makes of a file ---


def added(file: FilePatch) -> str:
    """The content of a file that is added."""
    return "".join(f"{text}\n" for hunk in file.hunks for _, text in hunk.rows)


def updated(name: str, before: Decoded, file: FilePatch) -> Decoded:
    """The file after every hunk.

    Raises:
        BadInput: `not_found_in_file` or `ambiguous`: a hunk's lines are not in one place.
        Refused: `not_encodable`.
    """
    neutral = Neutral(before)
    lines = neutral.text.split("\n")
    if lines[-1] == "":
        lines.pop()  # what follows the last line end is no line
    starts = _starts(lines)
    spans: list[Span] = []
    at = 0
    for hunk in file.hunks:
        at = _place(name, neutral.text, lines, starts, hunk, at)
        spans += _spans(neutral, starts, hunk, at)
        at += len(hunk.old)
    return spliced(before, spans)


def _starts(lines: list[str]) -> list[int]:
    """Where each line begins, and where the one after the last would."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return starts


def _place(name: str, text: str, lines: list[str], starts: list[int], hunk: Hunk, at: int) -> int:
    """The line that a hunk begins at, from `at` on."""
    if hunk.anchor:
        found = next((index for index in range(at, len(lines)) if lines[index].strip() == hunk.anchor.strip()), None)
        if found is None:
            raise missing(name, text, [hunk.anchor])
        at = found + 1
    old = hunk.old
    places = [index for index in range(at, len(lines) - len(old) + 1) if lines[index : index + len(old)] == old]
    if not places:
        raise missing(name, text, old)
    if len(places) > 1 and not hunk.anchor:
        raise ambiguous(name, text, [starts[index] for index in places])
    return places[0]


def _spans(neutral: Neutral, starts: list[int], hunk: Hunk, at: int) -> list[Span]:
    """Each run of removed and added lines as one replacement; lines that are kept stay as they stand."""
    spans: list[Span] = []
    first, new = at, list[str]()
    for sign, text in (*hunk.rows, (" ", "")):
        if sign == "+":
            new.append(text)
        elif sign == "-":
            at += 1
        else:
            if at > first or new:
                spans.append(_span(neutral, starts[first], starts[at], new))
            at += 1
            first, new = at, []
    return spans


def _span(neutral: Neutral, start: int, end: int, new: list[str]) -> Span:
    """Whole lines replaced. A file whose last line has no end keeps it so."""
    size, text = len(neutral.text), "".join(f"{line}\n" for line in new)
    if end > size:
        text = text.removesuffix("\n")
        if start > size:
            text = f"\n{text}"  # behind a last line without an end
        elif not new:
            start -= 1 if start else 0  # the last line goes, and so does the end of the one before it
    return neutral.span(min(start, size), min(end, size), text)
