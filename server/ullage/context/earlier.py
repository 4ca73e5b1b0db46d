"""Reading an earlier compaction back from a history that holds nothing but messages.

Invariant: what an earlier replacement proved (words, files, commands, the newest error) is evidence again at the next
compaction, so any number of them in a row lose no more than one of the same size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ullage.context.digest import COMMANDS_TITLE, ERROR_TITLE, READ_TITLE, WRITTEN_TITLE
from ullage.context.ledger import FACTS_LINE
from ullage.context.replacement import read_head
from ullage.core.context import Replacement
from ullage.core.messages import Message, Role, Text
from ullage.core.state import CommandFact, Facts, FileFact

_COMMAND = re.compile(r"- `(?P<command>.*)`: (?:exit (?P<code>-?\d+)|outcome unknown)(?:; (?P<detail>.*))?")


def begin_again(messages: Sequence[Message]) -> tuple[Replacement, Facts, list[Message]] | None:
    """The head that a history begins with, the facts in it, and the messages after it; None if it begins with none."""
    first = messages[0] if messages else None
    if first is None or first.role is not Role.USER:
        return None
    texts: list[str] = []
    for part in first.parts:
        if not isinstance(part, Text):
            break
        texts.append(part.text)
    head = read_head(texts)
    if head is None:
        return None
    replacement, count = head
    rest = [replace(first, parts=first.parts[count:])] if len(first.parts) > count else []
    return replacement, read_facts(replacement.ledger), [*rest, *messages[1:]]


def read_facts(ledger: str) -> Facts:
    """Files, commands and the newest error that the host's part of a ledger lists."""
    lines = ledger.rpartition(FACTS_LINE)[2].splitlines()
    written = [FileFact(path, True, -1, 0) for path in reversed(_listed(lines, WRITTEN_TITLE))]
    read = [FileFact(path, False, -1, 0) for path in reversed(_listed(lines, READ_TITLE))]
    ran = [_COMMAND.fullmatch(f"- {line}") for line in reversed(_listed(lines, COMMANDS_TITLE))]
    commands = tuple(_command(match) for match in ran if match)
    return Facts(files=(*read, *written), commands=commands, newest_error=_error(lines))


def _listed(lines: Sequence[str], title: str) -> list[str]:
    """The items below a title, without the note that counts what did not fit."""
    if title not in lines:
        return []
    found: list[str] = []
    for line in lines[lines.index(title) + 1 :]:
        if not line.startswith("- "):
            break
        if not line.startswith("- … and "):
            found.append(line.removeprefix("- "))
    return found


def _command(match: re.Match[str]) -> CommandFact:
    code = match["code"]
    return CommandFact(match["command"], None if code is None else int(code), match["detail"], -1)


def _error(lines: Iterable[str]) -> str | None:
    """From its title to the next heading: errors may have lines."""
    found: list[str] | None = None
    for line in lines:
        if found is None:
            found = [line.removeprefix(ERROR_TITLE)] if line.startswith(ERROR_TITLE) else None
        elif line.startswith("## "):
            break
        else:
            found.append(line)
    return None if found is None else "\n".join(found)
