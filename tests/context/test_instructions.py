"""Instruction files: which apply, what the model is told of them, and what a replacement carries."""

from __future__ import annotations

import pytest

from ullage.context.instructions import TITLE, added, folders, in_force, kept, share
from ullage.context.limits import Limits
from ullage.context.occupancy import budget, count_message
from ullage.core.context import Budget, InstructionFile
from ullage.core.events import Entry, InstructionsAdded
from ullage.core.messages import Text
from ullage.core.reduce import reduce
from ullage.core.state import Facts, FileFact, State
from ullage.providers.tokens import ApproximateCounter

COUNTER = ApproximateCounter()
ROOM = budget(200_000, "setting")

APPLY = {
    "nothing touched": ((), (".",)),
    "the root's file": (("a.py",), (".",)),
    "a chain": (("a/b/c/x.py",), ("a/b/c", "a/b", "a", ".")),
    "the newest first": (("old/x.py", "new/y.py"), ("new", ".", "old")),
    "siblings share": (("a/b/x.py", "a/c/y.py"), ("a/c", "a", ".", "a/b")),
    "one file twice": (("a/x.py", "a/x.py"), ("a", ".")),
    "what only a search named": (("?deep/x.py", "a/y.py"), ("a", ".")),
    "only searched": (("?deep/x.py",), (".",)),
}


@pytest.mark.parametrize(("touched", "expected"), APPLY.values(), ids=APPLY)
def test_which_files_apply(touched: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """Nearest wins: the folder of what was touched last, then the folders above it. `?` marks a search's find."""
    facts = [FileFact(path.lstrip("?"), False, seq, 0, path[0] == "?") for seq, path in enumerate(touched)]
    assert folders(facts) == expected


def file(path: str = "AGENTS.md", text: str = "Use tabs.\n", problem: str | None = None) -> InstructionFile:
    why = "" if problem is None else "for a reason."
    return InstructionFile(path, "" if problem else text, None if problem else f"sha of {text}", False, problem, why)


def tell(
    state: State, *files: InstructionFile, limits: Limits | None = None, room: Budget = ROOM
) -> tuple[State, list[InstructionsAdded]]:
    """The state once the model was told, and what it was told."""
    events = added(state, files, room, COUNTER, limits or Limits())
    for event in events:
        state = reduce(state, Entry(state.facts.last_seq + 1, 0, event))
    return state, list(events)


def shown(event: InstructionsAdded) -> tuple[str, str | None, str]:
    parts = [part.text for part in event.instructions.message.parts if isinstance(part, Text)]
    assert parts[0].startswith(TITLE)
    return event.instructions.path, event.instructions.note, "".join(parts[1:])


SECOND = {
    "unchanged": (file(), file(), None),
    "changed": (file(), file(text="Use spaces.\n"), ("AGENTS.md", None, "Use spaces.\n")),
    "gone": (file(), file(problem="gone"), ("AGENTS.md", "gone", "")),
    "not trusted any more": (file(), file(problem="untrusted"), ("AGENTS.md", "untrusted", "")),
    "never there": (None, file(problem="gone"), None),
    "gone twice": (file(problem="gone"), file(problem="gone"), None),
    "a link": (None, file(problem="symlink"), ("AGENTS.md", "symlink", "")),
    "still a link": (file(problem="symlink"), file(problem="symlink"), None),
    "a link no longer": (file(problem="symlink"), file(), ("AGENTS.md", None, "Use tabs.\n")),
    "a link that is gone": (file(problem="symlink"), file(problem="gone"), None),
    "back again": (file(problem="gone"), file(), ("AGENTS.md", None, "Use tabs.\n")),
}


@pytest.mark.parametrize(("before", "now", "expected"), SECOND.values(), ids=SECOND)
def test_the_model_is_told_once_and_again_when_the_file_changed(
    before: InstructionFile | None, now: InstructionFile, expected: tuple[str, str | None, str] | None
) -> None:
    state = tell(State(), before)[0] if before else State()
    state, events = tell(state, now)
    assert [shown(event) for event in events] == ([expected] if expected else [])
    assert not tell(state, now)[1], "told a second time"


def test_a_newer_text_says_that_it_takes_the_place_of_the_older() -> None:
    state, _ = tell(State(), file())
    state, [event] = tell(state, file(text="Use spaces.\n"))
    assert "take the place" in event.instructions.message.text
    [carried] = kept(state, 10_000, COUNTER)
    assert "take the place" not in carried.instructions.message.text, "what it replaced is not there any more"
    assert "Use spaces." in carried.instructions.message.text
    assert "Use tabs." not in carried.instructions.message.text


def test_the_nearest_is_the_last_word_and_stays_whole() -> None:
    """Beyond the share the nearest stay whole and the others are cut, with a note that says where the rest is."""
    near = file("a/b/AGENTS.md", "Near rule.\n" * 200)
    middle = file("a/AGENTS.md", "Middle rule.\n" * 200)
    root = file("AGENTS.md", "Root rule.\n" * 200)
    _, events = tell(State(), near, middle, root, limits=Limits(instructions_tokens=1_100))
    assert [shown(event)[:2] for event in events] == [
        ("AGENTS.md", "cut"),
        ("a/AGENTS.md", "cut"),
        ("a/b/AGENTS.md", None),
    ]
    assert shown(events[2])[2] == near.text
    assert middle.text.startswith(shown(events[1])[2]) and shown(events[1])[2].endswith("\n")
    assert shown(events[0])[2] == "", "too little room for a beginning: it is only named"
    assert "read the file" in events[0].instructions.message.text
    assert sum(event.tokens for event in events[1:]) <= 1_100


def test_what_is_told_is_counted() -> None:
    state, events = tell(State(), file(), file("a/AGENTS.md"))
    assert [event.tokens for event in events] == [count_message(e.instructions.message, COUNTER) for e in events]
    assert state.tokens == sum(event.tokens for event in events)


SHARES = {
    "a large window": (ROOM, 8_000),
    "a small window": (budget(16_000, "setting"), 1_200),
    "no window known": (budget(None, "unknown"), 8_000),
}


@pytest.mark.parametrize(("room", "expected"), SHARES.values(), ids=SHARES)
def test_their_share(room: Budget, expected: int) -> None:
    assert share(room, Limits()) == expected


def test_a_replacement_carries_what_holds_once_in_the_order_it_was_given() -> None:
    state, _ = tell(State(), file(), file("link/AGENTS.md", problem="symlink"))
    state, _ = tell(state, file("a/AGENTS.md", "A.\n"), file("b/AGENTS.md", "B.\n"))
    state, _ = tell(state, file("a/AGENTS.md", "A, newer.\n"), file("b/AGENTS.md", problem="gone"))
    carried = kept(state, 10_000, COUNTER)
    assert [given.instructions.path for given in carried] == ["link/AGENTS.md", "AGENTS.md", "a/AGENTS.md"]
    assert [given.seq for given in carried] == [in_force(state)[given.instructions.path].seq for given in carried]
    assert sum("A, newer." in given.instructions.message.text for given in carried) == 1


def test_a_replacement_cuts_the_farthest_and_keeps_digests() -> None:
    working = State(Facts(files=(FileFact("a/x.py", True, 0, 0),)))
    state, _ = tell(working, file("a/AGENTS.md", "Near rule.\n" * 100), file("AGENTS.md", "Root rule.\n" * 400))
    carried = {given.instructions.path: given for given in kept(state, 700, COUNTER)}
    assert sum(given.tokens for given in carried.values()) <= 700
    assert {path: given.instructions.note for path, given in carried.items()} == {
        "a/AGENTS.md": None,
        "AGENTS.md": "cut",
    }
    again = tuple(given.instructions.sha256 for given in carried.values())
    assert set(again) == {item.instructions.sha256 for item in in_force(state).values()}, "told again for no reason"
