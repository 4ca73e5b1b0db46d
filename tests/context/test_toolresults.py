"""How much of a tool's output a model sees, and shortening in general."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.context.histories import COUNTER

from ullage.context.shorten import clip, clip_tokens
from ullage.context.toolresults import fit_result

SHA = "ab" * 32


@pytest.mark.parametrize(
    ("chars", "input_budget", "spent", "most"),
    [
        (59_000, 100_000, 0, None),  # below 15 %
        (61_000, 100_000, 0, 15_000),
        (59_000, 100_000, 20_000, 10_000),  # what the step has left
        (59_000, 100_000, 30_000, 200),  # nothing left: a stub
        (99_000, 1_000_000, 0, None),
        (3_000_000, 1_000_000, 0, 25_000),  # 100,000 characters
        (99_000, 0, 0, None),  # unknown window
        (101_000, 0, 0, 25_000),
        (60_000, 12_288, 0, 1_843),  # W-T1: a 16k model
    ],
)
def test_budget(chars: int, input_budget: int, spent: int, most: int | None) -> None:
    """Design 6.16, T103, T104, W-T3: head and tail stay, and the stub says how to read the rest."""
    text = "HEAD" + "x" * (chars - 8) + "TAIL"
    fitted = fit_result(text, SHA, input_budget, spent, COUNTER)
    assert fitted.tokens == COUNTER.count(fitted.text)
    assert fitted.shortened is (most is not None)
    if most is None:
        assert fitted.text == text
    else:
        assert most * 8 // 10 - 60 <= fitted.tokens <= most
        assert len(fitted.text) <= 100_000
        assert (fitted.text[:4], fitted.text[-4:]) == ("HEAD", "TAIL")
        assert f"read_output with {SHA}" in fitted.text


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.text(max_size=3_000), st.integers(0, 400))
def test_clips_keep_both_ends(text: str, chars: int) -> None:
    short = clip(text, chars)
    assert (short == text) is (len(text) <= chars)
    if short != text and chars >= 4:
        assert (short[0], short[-1]) == (text[0], text[-1])
        assert len(short) <= chars + 60


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(st.text("ab/", min_size=1, max_size=9), min_size=1, max_size=60), st.integers(40, 400))
def test_clips_cut_between_lines(lines: list[str], chars: int) -> None:
    """Half a path would pass for a whole one."""
    short = clip("\n".join(lines), chars).split("\n")
    kept = [line for line in short if not line.startswith("[… ")]
    head = next((number for number, line in enumerate(short) if line.startswith("[… ")), len(short))
    assert kept[:head] == lines[:head]
    assert kept[head:] == lines[len(lines) - len(kept[head:]) :]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.text(max_size=5_000), st.integers(20, 400))
def test_clips_by_tokens(text: str, most: int) -> None:
    short = clip_tokens(text, most, COUNTER)
    assert COUNTER.count(short) <= most
    assert short == text or COUNTER.count(text) > most
