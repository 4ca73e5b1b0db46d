"""The explorer's notes: written, read back, and read back from what is left of them."""

from __future__ import annotations

import string
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.context.shorten import clip
from ullage.providers.exploring.notes import Notes, Place, Span, parse, quotable, write

WORDS = st.text(string.ascii_letters + string.digits + "./_-", min_size=1, max_size=12)
PLACES = st.builds(Place, WORDS, st.integers(1, 9_999), WORDS)
LISTS = st.lists(WORDS, max_size=3).map(tuple)
FOUND = st.lists(PLACES, max_size=3).map(tuple)
NUMBERS = st.integers(0, 999)


def settled(notes: Notes) -> Notes:
    """What a report says: nothing of a prompt that is over, and what is left only where something is listed."""
    return replace(notes, step=0, begun=0, queue=(), wanted="", further=notes.further if notes.listed else 0)


NOTES = st.builds(
    Notes,
    plan=st.lists(WORDS | st.builds(lambda path: str(Span(path, 1, 99)), WORDS), max_size=3).map(tuple),
    queue=LISTS,
    further=NUMBERS,
    after=WORDS | st.just(""),
    step=st.integers(1, 999),
    begun=NUMBERS,
    wanted=WORDS | st.just(""),
    folder=WORDS,
    read=NUMBERS,
    listed=NUMBERS,
    languages=LISTS,
    biggest=LISTS,
    test_files=NUMBERS,
    entries=FOUND,
    todos=FOUND,
    tests=FOUND,
    hits=FOUND,
).map(lambda notes: notes if notes.plan else settled(notes))


@settings(max_examples=100, derandomize=True)
@given(NOTES)
def test_what_is_written_is_read_back(notes: Notes) -> None:
    assert parse(write(notes)) == notes


@settings(max_examples=100, derandomize=True)
@given(NOTES)
def test_lines_may_be_joined(notes: Notes) -> None:
    """A digest may put the last stated plan on one line."""
    assert parse("- Last said: I read on. " + " ".join(write(notes).split())) == notes


@settings(max_examples=100, derandomize=True)
@given(NOTES, st.data())
def test_the_end_may_be_cut(notes: Notes, data: st.DataObject) -> None:
    """What is left says nothing that was not written, and is no notes before step and plan are complete."""
    text = write(notes)
    cut = parse(text[: data.draw(st.integers(0, len(text)))])
    assert cut in (None, notes) or not notes.done
    if cut:
        assert cut.plan == notes.plan[: len(cut.plan)]
        assert cut.hits == notes.hits[: len(cut.hits)]
        assert (cut.step, cut.begun, cut.read) == (notes.step, notes.begun, notes.read)


@settings(max_examples=100, derandomize=True)
@given(NOTES, st.integers(500, 900))
def test_the_middle_may_be_left_out(notes: Notes, chars: int) -> None:
    """A digest keeps head and tail of what was said last: a report is still known for one by its last line."""
    cut = parse(clip(write(notes), chars))
    if notes.done:
        assert cut and (cut.read, cut.after, cut.further) == (notes.read, notes.after, notes.further)
    elif cut:
        assert (cut.step, cut.plan) == (notes.step, notes.plan[: len(cut.plan)])


def test_a_report_ends_with_where_it_is() -> None:
    notes = Notes(read=18, listed=187, further=160, after="CHANGELOG.md", languages=("Python 170",))
    assert write(notes).splitlines() == [
        "Languages: `Python 170`",
        "",
        "Progress: `18 of 187` files read, `160` are left, next after `CHANGELOG.md`.",
    ]


@settings(max_examples=100, derandomize=True)
@given(st.text(), st.integers(0, 3))
def test_any_text_can_be_searched_and_quoted(text: str, repeated: int) -> None:
    parse(f"Step: `{text}" * repeated + text)
    notes = Notes(step=1, plan=("go",), todos=(Place("a.py", 1, quotable(text)),))
    read = parse(write(notes))
    assert read and read.todos[0].line == 1


def test_text_without_notes_has_none() -> None:
    assert parse("Step: `4`. Folder: `.`. The Plan is good.") is None
    assert parse("Plan: `read a.py 1-9`. Folder: `.`.") is None
