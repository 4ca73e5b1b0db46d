"""What the tools that change files have in common: a plan first, then all of it through the door.

Invariants. A plan only reads, so it can be shown to a person before anything happens. A file that exists is changed
only as this session last saw it: its content's sha256 is a fact of the session, compared when the plan is made, and
again by the door when it is carried out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ullage.core.errors import BadInput, Refused, UllageError
from ullage.core.messages import Op, ToolFacts
from ullage.core.ports import Intent, ToolOutcome
from ullage.tools.diffing import changed_lines, unified
from ullage.tools.job import Job
from ullage.workspace.encoding import Decoded, decode
from ullage.workspace.paths import WorkspacePath, shown


@dataclass(frozen=True, slots=True)
class Change:
    """One file: what it holds now (None: there is none) and what it shall hold (None: it goes)."""

    path: WorkspacePath
    before: Decoded | None
    after: Decoded | None

    @property
    def expected(self) -> str | None:
        """sha256 of what must stand there when it is carried out."""
        return None if self.before is None else _sha256(self.before.data)


Plan = Sequence[Change]
"""The changes of one call, one for a file at most."""


def intent_of(plan: Plan, most: int) -> Intent:
    """The plan as a person is shown it, in a diff of about `most` characters; its hash is of all bytes, cut or not."""
    digest, diffs = hashlib.sha256(), list[str]()
    for change in plan:
        files = (change.before, change.after)
        for part in (str(change.path).encode(), *(None if file is None else file.data for file in files)):
            digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
        old, new = (None if file is None else file.text for file in files)
        diffs.append(unified(shown(str(change.path)), old, new, most))
        most -= len(diffs[-1])
    return Intent(Op.WRITE, "\n".join(diffs), digest.hexdigest(), tuple(str(change.path) for change in plan))


def load(job: Job, path: WorkspacePath) -> Decoded | None:
    """What a file holds that shall be changed, None where there is none.

    Raises:
        Refused: `not_read`, `changed`, `too_large`, or the door said no.
        BadInput: `binary_file` or `unknown_encoding`.
    """
    most, name = job.root.limits.written_bytes, shown(str(path))
    try:
        content = job.root.read(path, at_most=most)
    except Refused as refused:
        if refused.report.code == "not_found":
            return None
        raise
    if content.cut:
        message = f"'{name}' has {content.stat.size:,} bytes; files of up to {most:,} can be changed."
        raise Refused(message, hint="Change it with another program.", code="too_large")
    seen = job.seen(str(path))
    if seen is None:
        raise Refused(f"'{name}' was not read in this session.", hint="Read it, then change it.", code="not_read")
    if seen != _sha256(content.data):
        message = f"'{name}' changed on disk since it was read; nothing was written."
        raise Refused(message, hint="Read it again, then change what is there now.", code="changed")
    return named(name, content.data)


def existing(job: Job, path: WorkspacePath) -> Decoded:
    """As `load`, of a file that must be there.

    Raises:
        Refused: also `not_found`.
    """
    found = load(job, path)
    if found is None:
        message = f"'{shown(str(path))}' does not exist."
        raise Refused(message, hint="List the folder to see what is there.", code="not_found")
    return found


def named(name: str, data: bytes) -> Decoded:
    """The text of the bytes of a file; a refusal names it."""
    try:
        return decode(data)
    except BadInput as error:
        report = error.report
        message = report.message.replace("The file", f"'{name}'", 1).replace("this file", f"'{name}'", 1)
        raise BadInput(message, hint=report.hint, code=report.code) from None


def carry_out(job: Job, plan: Plan) -> ToolOutcome:
    """Write every file of the plan, in its order; what a failure leaves undone is said."""
    done: list[Change] = []
    notes: list[str] = []
    for change in plan:
        try:
            notes += _write(job, change)
        except UllageError as error:
            if not done:
                raise
            return _broken_off(done, len(plan), notes, error)
        done.append(change)
    return ToolOutcome("\n".join([*map(_told, done), *notes]), facts=_facts(done))


def _write(job: Job, change: Change) -> list[str]:
    if change.after is None:
        assert change.expected is not None
        job.root.remove(change.path, expected=change.expected)
        return []
    written = job.root.write(change.path, change.after.data, expected=change.expected)
    notes = [f"[folder {shown(folder)} was made]" for folder in written.folders]
    if written.links > 1:
        notes.append(f"[{shown(str(change.path))} had {written.links} names (hard links); the others keep what it was]")
    return notes


def _broken_off(done: list[Change], files: int, notes: list[str], error: UllageError) -> ToolOutcome:
    report = error.report
    lines = [f"Only {len(done)} of {files} files were changed. {report.message} {report.hint}".strip()]
    facts = replace(_facts(done), detail=f"{report.code}: {report.message}")
    return ToolOutcome("\n".join([*lines, *map(_told, done), *notes]), is_error=True, facts=facts)


def _facts(done: list[Change]) -> ToolFacts:
    hashes = tuple("" if change.after is None else _sha256(change.after.data) for change in done)
    paths = tuple(str(change.path) for change in done)
    return ToolFacts(Op.WRITE, paths, detail=f"{len(done)} files changed", hashes=hashes)


def _told(change: Change) -> str:
    """What happened to a file, with line numbers of the file as it is now."""
    name = shown(str(change.path))
    if change.after is None:
        return f"Deleted {name}."
    lines = len(change.after.text.splitlines())
    if change.before is None:
        return f"Created {name}: {lines} lines."
    what = changed_lines(change.before.text, change.after.text) or "nothing differs"
    return f"Changed {name} ({change.after.name}): {what}. It has {lines} lines now."


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
