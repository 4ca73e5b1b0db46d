"""The digest: the part of the ledger that is made from facts, without a model.

Every path that was written or read, commands with their exit codes, the newest error, the plan that was last stated,
and where the open turn stands. What is named first here is kept first when the cap is small.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ullage.context.limits import LIMITS, Limits
from ullage.context.shorten import clip, clip_tokens
from ullage.core.exact import HEADINGS
from ullage.core.messages import Role, Todo, TodoStatus
from ullage.core.omission import whole_items
from ullage.core.ports import TokenCounter
from ullage.core.state import CommandFact, Facts, MessageItem, State

_OBJECTIVE, _DECISIONS, _MUTATIONS, _VERIFICATION, _ACTIVE, _RISKS, _NEXT = HEADINGS
_NOTHING = "- No evidence."
_COMMAND_CHARS = 300
ERROR_TITLE = "- Newest error: "
WRITTEN_TITLE = "Files written, newest first:"
READ_TITLE = "Files read, newest first:"
COMMANDS_TITLE = "Commands run, newest first:"
TODOS_TITLE = "The list of what is to do, as last written:"
_TODO_CHARS = 300
_BOXES = {TodoStatus.PENDING: " ", TodoStatus.ACTIVE: ">", TodoStatus.DONE: "x"}


@dataclass(slots=True)
class _Page:
    """Lines under their headings, as long as tokens last."""

    counter: TokenCounter
    left: int
    terse: bool = False
    sections: dict[str, list[str]] = field(default_factory=dict)

    def add(self, heading: str, line: str) -> bool:
        if self.left <= 0:
            return False
        cost = self.counter.count(line) + 1
        if self.terse and heading not in self.sections:
            cost += self.counter.count(f"## {heading}") + 1
        if cost > self.left:
            return False
        self.left -= cost
        self.sections.setdefault(heading, []).append(line)
        return True

    def add_all(self, heading: str, title: str, lines: list[str], unit: str) -> None:
        """Lines below a title, then how many did not fit."""
        if not lines:
            return
        note = f"- … and {len(lines):,} more {unit}"
        room = self.counter.count(note) + 1
        self.left -= room
        begun = self.add(heading, title)
        self.left += room
        if not begun:
            return
        for index, line in enumerate(lines):
            self.left -= room
            fits = self.add(heading, line)
            self.left += room
            if not fits:
                self.add(heading, f"- … and {len(lines) - index:,} more {unit}")
                return

    def text(self) -> str:
        shown = [heading for heading in HEADINGS if heading in self.sections or not self.terse]
        return "\n".join(f"## {heading}\n" + "\n".join(self.sections.get(heading, [_NOTHING])) for heading in shown)


def digest(state: State, most: int, counter: TokenCounter, limits: Limits = LIMITS, *, terse: bool = False) -> str:
    """The seven headings filled from facts, in at most `most` tokens (the bare headings at the least).

    A `terse` one has only headings with evidence, and of that only what was touched, what went wrong and what is open.
    """
    facts = state.facts
    page = _Page(counter, most, terse)
    page.left -= counter.count(page.text())
    for line in _standing(facts) if facts.open_turn or not terse else ():
        page.add(_ACTIVE, line)
    if facts.newest_error:
        error = clip_tokens(facts.newest_error, min(limits.error_tokens, max(0, page.left // 3)), counter)
        page.add(_RISKS, ERROR_TITLE + error)
    written = _quoted(file.path for file in reversed(facts.files) if file.written)
    read = _quoted(file.path for file in reversed(facts.files) if not file.written)
    page.add_all(_MUTATIONS, WRITTEN_TITLE, written, "files written")
    page.add_all(_MUTATIONS, READ_TITLE, read, "files read")
    todos = [
        f"- [{_BOXES[todo.status]}] {clip(' '.join(todo.text.split()), _TODO_CHARS)}"
        for todo in _by_status(facts.todos)
    ]
    page.add_all(_NEXT, TODOS_TITLE, todos, "entries of the list")
    if terse:
        return page.text()
    if page.left > 0 and (plan := last_said(state)):
        page.add(_NEXT, "- Last said: " + clip_tokens(plan, min(limits.plan_tokens, max(0, page.left // 2)), counter))
    commands = [_command(fact) for fact in reversed(facts.commands)]
    page.add_all(_VERIFICATION, COMMANDS_TITLE, commands, "commands")
    if facts.title:
        page.add(_OBJECTIVE, f"- The session began with: {facts.title}")
    return page.text()


def _by_status(todos: Iterable[Todo]) -> list[Todo]:
    """What is done last: it matters least."""
    return sorted(todos, key=lambda todo: todo.status is TodoStatus.DONE)


def last_said(state: State) -> str:
    """The text of the newest assistant message that has any: the plan as last stated."""
    for item in reversed(whole_items(state.items, asked=False)):
        if isinstance(item, MessageItem) and item.message.role is Role.ASSISTANT and item.message.text.strip():
            return item.message.text.strip()
    return ""


def _standing(facts: Facts) -> list[str]:
    """Where the open turn and the queue stand."""
    turn = facts.open_turn
    if turn is None:
        return ["- No task is in progress."]
    said = f"- The active task is in progress; {turn.step} model calls made so far."
    waiting = [f"- Tool calls without a result: {', '.join(turn.pending)}"] if turn.pending else []
    return [said, *waiting]


def _quoted(paths: Iterable[str]) -> list[str]:
    """A path a line; one that holds a line end stays one line."""
    return [f"- {path}" if path.isprintable() else f"- {path!r}" for path in paths]


def _command(fact: CommandFact) -> str:
    command = clip(" ".join(fact.command.split()), _COMMAND_CHARS).replace("\n", " ")
    outcome = "outcome unknown" if fact.exit_code is None else f"exit {fact.exit_code}"
    detail = f"; {' '.join(fact.detail.split())[:_COMMAND_CHARS]}" if fact.detail else ""
    return f"- `{command}`: {outcome}{detail}"
