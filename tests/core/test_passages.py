"""What can be found by words, and what a query asks for."""

from __future__ import annotations

import pytest

from ullage.core.events import Parent, PromptMode, SessionForked
from ullage.core.matching import MOST_TERMS, TERM_CHARS, Query, Ranking, parse_query, searched, weights
from ullage.core.messages import Message, Role, Text, ToolCall
from ullage.core.passages import OVERLAP_CHARS, Gatherer, Passage, PassageKind, arguments_text
from ullage.core.views import Shown, ShownPrompt, ShownPromptGone, ShownSession, ShownTurnStart, ShownWhat


def prompt(turn: str, text: str = "x") -> ShownPrompt:
    return ShownPrompt(Message(f"{turn}/u", Role.USER, (Text(text),), turn), PromptMode.QUEUE)


def take(gatherer: Gatherer, *whats: ShownWhat) -> list[str]:
    return [passage.text for seq, what in enumerate(whats) for passage in gatherer.take(Shown(seq, 0, what))]


def test_nothing_is_remembered_of_prompts_that_no_turn_will_take() -> None:
    fresh = Gatherer(lambda ref: None).dump()
    gatherer = Gatherer(lambda ref: None)
    assert take(gatherer, prompt("a"), ShownPromptGone("a"), prompt("b"), ShownTurnStart("b")) == ["x"]
    assert gatherer.dump() == fresh
    take(gatherer, prompt("c"))
    assert gatherer.dump() != fresh
    take(gatherer, ShownSession(SessionForked(Parent("p", 1))))
    assert gatherer.dump() == fresh


def test_a_gatherer_goes_on_where_another_one_paused() -> None:
    first, second = Gatherer(lambda ref: None), Gatherer(lambda ref: None)
    take(first, prompt("a", "said before the pause"))
    second.restore(first.dump())
    assert second.dump() == first.dump()
    assert take(second, ShownTurnStart("a")) == ["said before the pause"]


@pytest.mark.parametrize("length", [0, 1, 3_999, 4_000, 4_001, 7_700, 7_701, 20_000])
def test_pieces_cover_a_text_and_share_their_edges(length: int) -> None:
    text = "".join(chr(0x4E00 + number % 20_000) for number in range(length))
    gatherer = Gatherer(lambda ref: None)
    take(gatherer, prompt("a", text))
    pieces = list(gatherer.take(Shown(1, 0, ShownTurnStart("a"))))
    whole = ""
    for piece in pieces:
        assert piece.offset <= max(0, len(whole) - OVERLAP_CHARS)
        whole = whole[: piece.offset] + piece.text
        assert text[piece.offset :].startswith(piece.text)
    assert whole == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('{"path": "a.py", "n": 3, "deep": {"k": ["端"]}}', 'path: a.py\nn: 3\ndeep: {"k": ["端"]}'),
        ("{broken", "{broken"),
        ("[1]", "[1]"),
        ("", ""),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_arguments_as_text(raw: str, text: str) -> None:
    assert arguments_text(ToolCall("c", "tool", raw)) == text


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        (" \n ", ()),
        ("Port", ("port",)),
        ("the port?", ("the", "port", "the port")),
        ('"the port" now', ("the port", "now", "the port now")),
        ("a -> (b)", ("a", "->", "b", "a -> b")),
        ("()", ("()",)),
        ("same same", ("same", "same same")),
        ("数据库端", ("数据库端", "数据", "据库", "库端")),
        ("端口", ("端口",)),
        ("x" * 500, ("x" * TERM_CHARS,)),
    ],
)
def test_what_a_query_asks_for(text: str, terms: tuple[str, ...]) -> None:
    assert parse_query(text).terms == terms
    assert len(parse_query(" ".join(map(str, range(99)))).terms) == MOST_TERMS
    assert TERM_CHARS < OVERLAP_CHARS, "a term at a cut is whole in one of the two passages"


def test_a_ranking_keeps_the_newest_and_forgets_none_that_is_better() -> None:
    """Of any number of passages it holds few, and the best of all come out."""
    query, ranking = Query(("common", "rare")), Ranking(Query(("common", "rare")), 3)
    for seq in range(1_000):
        text = "common rare" if seq == 5 else "rare" if seq == 7 else "common"
        passage = Passage(seq, 0, f"m{seq}", PassageKind.ANSWER, "", "", 0, text)
        ranking.seen += 1
        ranking.add(passage, searched(passage), in_view=seq == 999)
    best = ranking.best(weights(query, [ranking]), 5)
    assert [hit.passage.seq for hit in best] == [5, 7, 998, 997, 996]
    assert [hit.passage.seq for hit in ranking.best(weights(query, [ranking]), 9)][-1] == 999
