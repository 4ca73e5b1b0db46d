"""`recall` as the model meets it: places, sizes, what is still in view."""

from __future__ import annotations

import re

import pytest
from tests.tools.hands import Hands

from ullage.core.matching import Hit, parse_query, snippet
from ullage.core.messages import BlobRef
from ullage.core.passages import Passage, PassageKind
from ullage.core.ports import Recalled

FULL = BlobRef("f" * 64, 90_000)


def passage(number: int = 1, kind: PassageKind = PassageKind.PROMPT, text: str = "the needle", **fields: object) -> Hit:
    made = Passage(number, 0, f"t{number}/u", kind, "", str(fields.pop("label", "")), 3_700, text, **fields)  # type: ignore[arg-type]
    return Hit(made, 1.0, False)


def recalled(*hits: Hit, complete: bool = True) -> Recalled:
    return Recalled(parse_query(""), hits, complete)


async def test_each_passage_has_its_place(hands: Hands) -> None:
    hands.recalled = recalled(
        passage(),
        Hit(passage(2, PassageKind.ANSWER, "a needle").passage, 1.0, True),
        passage(3, PassageKind.RESULT, "some needle", label="read a.py", full=FULL),
    )
    hands.allowed = [FULL]
    assert await hands.good("recall", query="needle") == (
        "1. the user said (message t1/u, seq 1):\nthe needle\n\n"
        "2. you said (message t2/u, seq 2; still in your context):\na needle\n\n"
        f"3. result of read a.py (message t3/u, seq 3; for more: read_output with {FULL.sha256}, offset 3700):\n"
        "some needle"
    )
    hands.allowed = []
    assert "read_output" not in await hands.good("recall", query="needle"), "it would be refused"


async def test_passages_share_the_room(hands: Hands) -> None:
    """Fewer are shown longer; each is cut around what was found, with dots where something is left out."""
    text = "x" * 10_000 + " needle " + "y" * 10_000
    for number in (1, 5, 20):
        hands.recalled = recalled(*(passage(n, text=text) for n in range(number)))
        shown = await hands.good("recall", query="needle", limit=number)
        assert shown.count(" needle ") == number == shown.count("… x") == shown.count("y …")
        assert hands.limits.recall_characters <= len(shown) <= hands.limits.recall_characters + 60 * number


async def test_no_more_than_the_limit(hands: Hands) -> None:
    hands.recalled = recalled(*(passage(n) for n in range(90)))
    assert len(re.findall("the needle", await hands.good("recall", query="needle", limit=1_000))) == 20
    assert len(re.findall("the needle", await hands.good("recall", query="needle"))) == 5


async def test_nothing_and_not_all(hands: Hands) -> None:
    assert await hands.good("recall", query="'; --") == "[nothing found; other words may find it]"
    hands.recalled = recalled(passage(), complete=False)
    assert (await hands.good("recall", query="needle")).endswith("[not everything could be searched in time]")
    await hands.refused("recall", "bad_arguments", query="")


@pytest.mark.parametrize(
    ("text", "query", "chars", "shown"),
    [
        ("short", "x", 10, "short"),
        ("0123456789", "0", 4, "0123 …"),
        ("0123456789", "9", 4, "… 6789"),
        ("0123456789", "5", 4, "… 3456 …"),
        ("0123456789", "nowhere", 4, "0123 …"),
        ("ß" * 50 + "x" + "ß" * 50, "x", 11, "… " + "ß" * 5 + "x" + "ß" * 5 + " …"),
    ],
)
def test_snippets(text: str, query: str, chars: int, shown: str) -> None:
    assert snippet(text, parse_query(query), chars) == shown
