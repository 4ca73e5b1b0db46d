"""`read`: numbered lines of one file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from ullage.core.errors import BadInput
from ullage.core.messages import Op
from ullage.core.ports import ToolOutcome
from ullage.tools.arguments import ReadArguments
from ullage.tools.changing import named
from ullage.tools.job import STOPPED, Job, outcome
from ullage.tools.limits import Limits
from ullage.tools.paging import Line, Page, page
from ullage.workspace.paths import shown
from ullage.workspace.root import OpenedFile

_UTF8_BYTES = 4  # most bytes of one character


def read(job: Job, arguments: ReadArguments) -> ToolOutcome:
    """Show lines of a text file, each with its number.

    Raises:
        Refused: the door said no.
        BadInput: the file is binary, or ends before the first line asked for.
    """
    path = job.root.locate(arguments.path)
    count = min(arguments.lines, job.limits.read_lines)
    with job.root.opened(path) as file:
        whole = _whole(job, file)
        chunks = _text_chunks(job, file) if whole is None else iter((whole.utf8,))
        line_bytes = job.limits.line_characters * _UTF8_BYTES
        found = page(chunks, arguments.first_line, count, line_bytes, job.limits.result_bytes)
        links = file.stat.links
    name = shown(str(path))
    if not found.lines and arguments.first_line > 1:
        raise BadInput(
            f"'{name}' has {found.seen} lines; line {arguments.first_line} is behind its end.",
            hint=f"Ask for a first_line of at most {max(found.seen, 1)}.",
        )
    body, shown_lines, notes = _render(found, job.limits)
    if found.seen == 0:
        notes.append(f"'{name}' is empty")
    if whole is not None and whole.note:
        notes.append(whole.note)
    if links > 1:
        notes.append(f"this file has {links} names (hard links); the others may lie outside the workspace")
    if (stop := job.budget.stop()) is not None:
        notes.append(STOPPED[stop])
    done = outcome(Op.READ, (str(path),), f"{shown_lines} lines of {name}", body, notes)
    if whole is None or done.facts is None:
        return done
    return replace(done, facts=replace(done.facts, hashes=(whole.sha256,)))


@dataclass(frozen=True, slots=True)
class _Whole:
    """All of a file that is small enough to be changed: its text in UTF-8, and the hash of its bytes as they are."""

    utf8: bytes
    sha256: str
    note: str = ""


def _whole(job: Job, file: OpenedFile) -> _Whole | None:
    most = job.root.limits.written_bytes
    if file.stat.size > most:
        return None
    data = file.read(most)
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        text = named(shown(str(file.path)), data)
    except BadInput as error:
        if error.report.code != "unknown_encoding":
            raise
        return _Whole(data, sha256, error.report.message)
    if text.encoding == "utf-8":
        return _Whole(data[len(text.mark) :], sha256)
    return _Whole(text.text.encode(), sha256, f"the file is {text.name}; what you write into it is stored so")


def _text_chunks(job: Job, file: OpenedFile) -> Iterator[bytes]:
    """The chunks of a large file until the budget ends; the first one tells text from binary."""
    chunks = file.chunks()
    first = next(chunks, b"")
    if b"\0" in first:
        raise BadInput(
            f"'{shown(str(file.path))}' is binary ({file.stat.size:,} bytes).",
            hint="Only text files can be read.",
            code="binary_file",
        )
    for chunk in chain((first.removeprefix(b"\xef\xbb\xbf"),), chunks):
        if job.budget.stop() is not None:
            return
        yield chunk


def _render(found: Page, limits: Limits) -> tuple[str, int, list[str]]:
    """The numbered text, how many lines of it, and what was left away."""
    rows: list[str] = []
    room = limits.result_bytes
    cut = broken = 0
    for line in found.lines:
        text, was_cut = _text(line, limits.line_characters)
        row = f"{line.number:>6}\t{text}"
        room -= len(row.encode()) + 1
        if rows and room < 0:
            break
        rows.append(row)
        cut += was_cut
        broken += "\ufffd" in text
    notes: list[str] = []
    if cut:
        notes.append(f"{cut} lines were cut at {limits.line_characters} characters; grep finds what is in the rest")
    if broken:
        notes.append("not all of this is UTF-8; what is not shows as \ufffd")
    if found.more or len(rows) < len(found.lines):
        last = found.lines[len(rows) - 1].number
        notes.append(f"the file goes on; read on with first_line {last + 1}")
    return "\n".join(rows), len(rows), notes


def _text(line: Line, characters: int) -> tuple[str, bool]:
    text = line.data.decode("utf-8", "replace")
    return text[:characters], line.cut or len(text) > characters
