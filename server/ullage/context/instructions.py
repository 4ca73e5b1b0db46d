"""Instruction files of the workspace (such as AGENTS.md): which hold, what the model is told of them, what stays.

Invariant: the model is told of a file once, and again only when the file has changed. What holds is found in the items
and nowhere else, so a lost line, a fork or a rewind costs no more than being told again. A compaction neither retells
nor leaves out what holds: it stands in the replacement as it was given, each file once, and is cut only where all of
them together are more than their share; then the nearest stay whole.

*Nearest* is the order of a list: the folder of the file that was touched last, the folders above it, and then the same
for the file that was touched before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ullage.context.limits import LIMITS, Limits
from ullage.context.occupancy import count_message
from ullage.core.context import WITHDRAWN, Budget, InstructionFile, Instructions, KeptInstructions
from ullage.core.events import InstructionsAdded
from ullage.core.messages import Message, Role, Text
from ullage.core.ports import TokenCounter
from ullage.core.state import FileFact, InstructionsItem, State

ORIGIN = "instructions"
"""What marks the messages of this module."""
TITLE = "# Project instructions"
"""How every text begins that tells the model of an instruction file."""
_LEAST = 100
"""Tokens below which no beginning of a file is shown: it would say less than where to read it."""
_FRAMING = 24
"""What the model is told beside introduction and text."""


def folders(files: Iterable[FileFact]) -> tuple[str, ...]:
    """Folders whose instruction files apply once these files were read or written, nearest first; always the root."""
    touched = sorted((file for file in files if not file.searched), key=lambda file: -file.seq)
    found = dict.fromkeys(above for file in touched for above in _above(file.path))
    return tuple(found) or (".",)


def _above(path: str) -> Iterator[str]:
    """The folder of a path and those above it, up to the root."""
    names = path.split("/")[:-1]
    for end in range(len(names), 0, -1):
        yield "/".join(names[:end])
    yield "."


def in_force(state: State) -> dict[str, InstructionsItem]:
    """What the model was told last of each file, the oldest first."""
    found: dict[str, InstructionsItem] = {}
    for item in state.items:
        if isinstance(item, InstructionsItem):
            found.pop(item.instructions.path, None)
            found[item.instructions.path] = item
    return found


def share(budget: Budget, limits: Limits = LIMITS) -> int:
    """Tokens that all instruction files may take together."""
    percent = budget.input_budget * limits.instructions_percent // 100
    return min(limits.instructions_tokens, percent) if budget.input_budget else limits.instructions_tokens


# --- telling ---


def added(
    state: State, files: Sequence[InstructionFile], budget: Budget, counter: TokenCounter, limits: Limits = LIMITS
) -> tuple[InstructionsAdded, ...]:
    """What the model must be told now that the files are as they are; nothing of what it knows. `files`: nearest first.

    The farthest is told first, so that the nearest is the last word.
    """
    known, room = in_force(state), share(budget, limits)
    events: list[InstructionsAdded] = []
    turn = state.facts.open_turn.turn_id if state.facts.open_turn else ""
    for file in files:
        old = known.get(file.path)
        if not _is_news(file, old):
            room -= old.tokens if old else 0
            continue
        message_id = f"{turn}/i{state.facts.last_seq + 1}.{len(events)}"
        again = old is not None and old.instructions.sha256 is not None
        told = _Telling(message_id, turn, file, again).fitted(max(0, room), counter)
        tokens = count_message(told.message, counter)
        room -= tokens
        events.append(InstructionsAdded(told, tokens, counter.encoding))
    return tuple(reversed(events))


def _is_news(file: InstructionFile, old: InstructionsItem | None) -> bool:
    if old is None:
        return file.problem not in WITHDRAWN
    known = old.instructions
    if file.problem in WITHDRAWN:
        return known.sha256 is not None
    return file.sha256 != known.sha256 or (file.sha256 is None and file.problem != known.note)


@dataclass(frozen=True, slots=True)
class _Telling:
    """One file on its way into the context; `again` when an older text of it stands there."""

    message_id: str
    turn_id: str
    file: InstructionFile
    again: bool = False

    def fitted(self, room: int, counter: TokenCounter) -> Instructions:
        """The file in at most `room` tokens: whole, its beginning, or only where to read it."""
        file = self.file
        if file.sha256 is None:
            return self._told(_withdrawn(file) if file.problem in WITHDRAWN else _left_out(file), "", file.problem)
        intro = self._intro(cut=file.cut)
        whole = self._told(intro, file.text, "cut" if file.cut else None)
        if count_message(whole.message, counter) <= room:
            return whole
        text = beginning(file.text, room - counter.count(self._intro(cut=True)) - _FRAMING, counter)
        return self._told(self._intro(cut=True) if text else _too_long(file.path), text, "cut")

    def _told(self, intro: str, text: str, note: str | None) -> Instructions:
        parts = tuple(Text(part) for part in (intro, text) if part.strip())
        message = Message(self.message_id, Role.USER, parts, self.turn_id, ORIGIN)
        return Instructions(self.file.path, message, self.file.sha256, note)

    def _intro(self, *, cut: bool) -> str:
        folder = self.file.path.rpartition("/")[0]
        where = f"everything below `{folder}/`" if folder else "the whole workspace"
        replaced = " They take the place of what you were shown of this file before." if self.again else ""
        rest = " Only their beginning is shown: read the file where you need the rest." if cut else ""
        return f"{_titled(self.file.path)}Follow these for {where}. {_NEAREST}{replaced}{rest}"


def _titled(path: str) -> str:
    return f"{TITLE}: `{path}`\n\n"


_NEAREST = (
    "Where files like this one disagree, the one nearest to the file you work on wins; what the user asks wins over "
    "all of them."
)


def _too_long(path: str) -> str:
    return f"{_titled(path)}They are not shown, for their length: read the file before you work there."


def _left_out(file: InstructionFile) -> str:
    return f"{_titled(file.path)}They could not be shown: {file.why}"


def _withdrawn(file: InstructionFile) -> str:
    return f"{_titled(file.path)}What you were shown of them holds no longer: {file.why}"


def beginning(text: str, room: int, counter: TokenCounter) -> str:
    """The longest beginning of whole lines in about `room` tokens; nothing where that would be too little to help."""
    if room < _LEAST:
        return ""
    while text and (taken := counter.count(text)) > room:
        text = text[: min(len(text) * room // taken, len(text) - 1 - len(text) // 50)]
        text = text[: text.rfind("\n") + 1]
    return text if counter.count(text) >= _LEAST else ""


# --- staying ---


def kept(state: State, room: int, counter: TokenCounter) -> tuple[KeptInstructions, ...]:
    """What holds, as a replacement carries it: each file once, in the order it was given, in `room` tokens together."""
    known = in_force(state)
    nearest = {folder: place for place, folder in enumerate(folders(state.facts.files))}
    by_place = sorted(known.values(), key=lambda item: nearest.get(_folder(item.instructions.path), len(nearest)))
    found: dict[int, KeptInstructions] = {}
    for item in by_place:
        if item.instructions.note in WITHDRAWN:
            continue
        given = _again(item, room, counter)
        room = max(0, room - given.tokens)
        found[item.seq] = given
    return tuple(found[item.seq] for item in known.values() if item.seq in found)


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _again(item: InstructionsItem, room: int, counter: TokenCounter) -> KeptInstructions:
    """One file's instructions without what was said of an older text, cut where they have to be."""
    old, message = item.instructions, item.message
    text = "".join(part.text for part in message.parts[1:] if isinstance(part, Text))
    if not text:
        return KeptInstructions(item.seq, old, item.tokens)
    file = InstructionFile(old.path, text, old.sha256, old.note == "cut")
    told = _Telling(message.message_id, message.turn_id, file).fitted(room, counter)
    return KeptInstructions(item.seq, told, count_message(told.message, counter))


def kept_tokens(state: State, room: int, counter: TokenCounter) -> int:
    """Tokens of what a replacement must carry."""
    return sum(given.tokens for given in kept(state, room, counter))
