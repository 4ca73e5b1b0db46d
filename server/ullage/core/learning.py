"""What tool results prove: the bounded memory of files, commands and errors that a digest is made from."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from ullage.core.events import Entry
from ullage.core.limits import BOUNDS
from ullage.core.messages import UNANSWERED, Op, ToolResult
from ullage.core.state import CommandFact, Facts, FileFact, changed


def learned(facts: Facts, entry: Entry, result: ToolResult) -> Facts:
    """Facts after a tool result: files, commands, the newest error, and outputs that can be paged through."""
    known = result.facts
    files, commands, error = facts.files, facts.commands, facts.newest_error
    for path, sha256 in zip_longest(known.paths, known.hashes[: len(known.paths)]):
        if sha256 or not result.is_error:  # a call that failed in the middle did touch those
            written, searched = known.op is Op.WRITE, known.op is Op.SEARCH
            files = _touched(files, FileFact(path, written, entry.seq, entry.at, searched, sha256 or None))
    if known.command is not None:
        ran = CommandFact(known.command, known.exit_code, known.detail, entry.seq)
        commands = (*commands, ran)[-BOUNDS.commands_remembered :]
    if (result.is_error or known.exit_code) and result.text != UNANSWERED:
        error = known.detail or result.text[-500:]
    outputs = facts.outputs
    if result.full is not None and result.full not in outputs:
        outputs = (*outputs, result.full)[-BOUNDS.outputs_remembered :]
    todos = facts.todos if known.todos is None else known.todos.items[: BOUNDS.todos_remembered]
    return changed(facts, files=files, commands=commands, newest_error=error, outputs=outputs, todos=todos)


def _touched(files: tuple[FileFact, ...], fact: FileFact) -> tuple[FileFact, ...]:
    """Newest last; a file that was once written stays so, and outlives files that were only read."""
    paths = [known.path for known in files]
    at = paths.index(fact.path) if fact.path in paths else None
    if at is not None:
        known = files[at]
        fact = replace(
            fact,
            written=fact.written or known.written,
            searched=fact.searched and known.searched,
            sha256=fact.sha256 if fact.sha256 or fact.written else known.sha256,
        )
    elif len(files) >= BOUNDS.files_remembered:
        candidates = (*files, fact)
        at = next((index for index, known in enumerate(candidates) if not known.written), 0)
        if at == len(files):
            return files
    return (*files, fact) if at is None else (*files[:at], *files[at + 1 :], fact)
