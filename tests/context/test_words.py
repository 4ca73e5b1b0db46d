"""Words of people, agents' acts, and heads that are read back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.context.histories import COUNTER

from ullage.context.acts import facts_of
from ullage.context.replacement import head_blocks, read_head
from ullage.context.words import STATEMENT, chosen, terse, weight
from ullage.core.context import Replacement, Word
from ullage.core.messages import Op, ToolCall, ToolFacts, ToolResult

_SAID = st.text(alphabet=st.sampled_from("ab •\n:[]1N"), min_size=1, max_size=20)


@given(st.lists(_SAID, max_size=6), st.text(max_size=40))
@settings(max_examples=300, derandomize=True)
def test_a_head_is_read_back_as_it_was(said: list[str], ledger: str) -> None:
    words = tuple(Word(str(number), text) for number, text in enumerate(said))
    made = Replacement(ledger, words[:1], words, (), "f", (), 0)
    found = read_head([block.text for block in head_blocks(made)])
    if not ledger and not words:
        assert found is None
        return
    assert found is not None
    assert [word.text for word in found[0].words] == said and found[0].ledger == ledger


def test_all_words_are_verbatim_while_they_fit_and_statements_outlive_talk() -> None:
    talk = [Word(f"t{n}", f"let us look at the thing over there, number by number, {'so ' * n}") for n in range(40)]
    rule = Word("r", "Never push to the release branch.")
    said = [rule, *talk]
    assert chosen(said, 10_000, COUNTER) == said
    kept = chosen(said, 200, COUNTER)
    assert rule.text in [word.text for word in kept] or terse(rule.text) in [word.text for word in kept]
    assert kept[-1] == talk[-1] and sum(COUNTER.count(word.text) for word in kept) <= 200


@pytest.mark.parametrize(
    ("text", "is_statement"),
    [
        ("never touch the lock file", True),
        ("the port moved to 8081", True),
        ("looking at the parser", False),
        ("x" * 5_000, False),
    ],
)
def test_what_a_statement_is(text: str, is_statement: bool) -> None:
    assert (weight(text) >= STATEMENT) == is_statement


@pytest.mark.parametrize(
    ("name", "arguments", "output", "facts"),
    [
        ("Read", '{"file_path": "/a/b.py"}', "", ToolFacts(Op.READ, ("/a/b.py",))),
        ("edit", '{"path": "b.py"}', "", ToolFacts(Op.WRITE, ("b.py",))),
        ("str_replace_editor", '{"command": "view", "path": "b"}', "", ToolFacts(Op.READ, ("b",))),
        ("str_replace_editor", '{"command": "create", "path": "b"}', "", ToolFacts(Op.WRITE, ("b",))),
        ("apply_patch", '{"input": "*** Begin Patch\\n*** Update File: x.py\\n"}', "", ToolFacts(Op.WRITE, ("x.py",))),
        (
            "shell",
            '{"command": ["bash", "-lc", "make"]}',
            "Exit code: 2\nE no",
            ToolFacts(Op.RUN, (), "make", 2, "E no"),
        ),
        ("mcp__files__read_file", '{"path": "b"}', "", ToolFacts(Op.READ, ("b",))),
        ("Read", "{broken", "", ToolFacts(Op.READ)),
        ("hologram", '{"path": "b"}', "", ToolFacts(Op.OTHER)),
    ],
)
def test_acts_of_known_agents(name: str, arguments: str, output: str, facts: ToolFacts) -> None:
    assert facts_of(ToolCall("c", name, arguments), ToolResult("c", output)) == facts


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Never push the tag to a mirror.", "Never push tag to mirror"),
        ("The next step is to mend the parser.", "next step to mend the parser"),
        ("NOTE: The region of our database: the one in the east.", "NOTE: region of database: the one in the east"),
        ("What is the", "What the"),
        ("the first line\nis the second.", "first line\nsecond."),
    ],
)
def test_a_terse_statement_keeps_to_the_letter_what_it_says_of_its_subject(text: str, told: str) -> None:
    assert terse(text) == told


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Launch date must stay 2027-03-01.", "The launch date moved, it is now 2027-05-09."),
        ("NOTE: use the blue cluster", "NOTE: that cluster was replaced by the green one"),
        ("The next release step must be packing.", "The next release step must be signing, by all of us together."),
    ],
)
def test_a_statement_is_not_kept_without_the_later_one_that_replaces_it(earlier: str, later: str) -> None:
    """The kit's `stale_only`: the old value of something and not its new one."""
    others = [f"Never open port {number * 111} on host {name}." for number, name in enumerate("abcdefghijkl")]
    said = [Word(str(place), text) for place, text in enumerate([earlier, *others, later, "ok"])]
    shorter = {earlier, terse(earlier)}
    for room in range(5, 260):
        kept = {word.text for word in chosen(said, room, COUNTER)}
        assert not kept & shorter or kept & {later, terse(later)}, room
    assert later in {word.text for word in chosen(said, 10_000, COUNTER)}


def test_statements_of_two_subjects_are_both_kept() -> None:
    """One common word makes no subject."""
    short, long = "Never push.", "Only push images to a registry that must exist and that somebody of ours has seen."
    kept = {word.text for word in chosen([Word("0", short), Word("1", long), Word("2", "ok")], 20, COUNTER)}
    assert kept == {short, "ok"}
    said = ["Never push to the main branch of ours.", "Never push to anybody's registry of images."]
    talk = [f"so let us look at it {n}" for n in range(30)]
    words = [Word(str(place), text) for place, text in enumerate([*said, *talk])]
    kept = {word.text for word in chosen(words, 60, COUNTER)}
    assert {terse(text) for text in said} <= kept | {terse(text) for text in kept}
