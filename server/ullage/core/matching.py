"""Finding passages by words: what a query asks for, how well a passage answers, and what of it is shown.

Any text is a query. A term is found where its letters stand, whatever is around them, so that parts of identifiers and
languages without spaces are found too; case and Unicode's ways to write one letter make no difference. Ranking counts
how rare the found terms are among all passages, so it comes out the same whoever chose the candidates.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.core.passages import Passage

MOST_TERMS: Final = 16
"""Terms of a query that count; longer ones than `TERM_CHARS` are cut."""
TERM_CHARS: Final = 100

_WORD = re.compile(r'"([^"]+)"|(\S+)')
_AROUND = ".,;:!?()[]{}<>'\"`。、，；：！？（）「」“”‘’"
"""Punctuation around a word that nobody looks for."""
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+")
"""Scripts that are written without spaces, or with few."""


def fold(text: str) -> str:
    """Text as it is compared. NUL ends a text for some readers, and lone surrogates have no bytes: both go."""
    return unicodedata.normalize("NFKC", text).casefold().replace("\0", " ").encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class Query:
    """Folded terms, each once; none when there was nothing to look for."""

    terms: tuple[str, ...]

    def found_in(self, folded: str) -> int:
        """Which terms stand in a folded text: a bit for each, the first one lowest."""
        return sum(1 << number for number, term in enumerate(self.terms) if term in folded)


def parse_query(text: str) -> Query:
    """The terms of any text: words, quoted phrases as one, pairs of letters of unspaced scripts, and the whole."""
    words = [phrase or _bare(word) for phrase, word in _WORD.findall(text)]
    pairs = (pair for word in words for pair in _pairs(word))
    whole = [" ".join(words)] if len(words) > 1 else []
    terms = (fold(term)[:TERM_CHARS] for term in (*words, *whole, *pairs))
    return Query(tuple(dict.fromkeys(term for term in terms if term.strip()))[:MOST_TERMS])


def _bare(word: str) -> str:
    bare = word.strip(_AROUND)
    return bare if any(map(str.isalnum, bare)) else word


def _pairs(word: str) -> Iterator[str]:
    for run in _UNSPACED.findall(word):
        if len(run) > 2:
            yield from (run[at : at + 2] for at in range(len(run) - 1))


def searched(passage: Passage) -> str:
    """What of a passage is compared with a query."""
    return fold(f"{passage.label}\n{passage.text}" if passage.label else passage.text)


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found, with its score and whether the model still sees it."""

    passage: Passage
    score: float
    in_view: bool


Place = tuple[str, str]
"""A text: its message and the part of it."""


class Ranking:
    """The best passages seen so far: of those with the same terms the newest, and one of each text.

    Memory: `keep` passages for each set of terms that was found together.
    """

    def __init__(self, query: Query, keep: int) -> None:
        self._query, self._keep = query, keep
        self.seen = 0
        """Passages there are, found or not."""
        self.counts: Counter[int] = Counter()
        """How many passages hold a set of terms."""
        self._kept: dict[tuple[bool, int], dict[Place, Passage]] = {}

    def add(self, passage: Passage, folded: str, in_view: bool) -> None:
        """Look at a passage; `seen` is counted by whoever knows them all."""
        found = self._query.found_in(folded)
        if not found:
            return
        self.counts[found] += 1
        kept = self._kept.setdefault((in_view, found), {})
        kept.setdefault((passage.message_id, passage.part), passage)
        if len(kept) > self._keep:
            del kept[min(kept, key=lambda place: (kept[place].seq, place))]

    def best(self, weights: Sequence[float], limit: int) -> list[Hit]:
        """The best hits, those out of the model's sight first."""
        hits = [
            Hit(passage, _weight(found, weights), in_view)
            for (in_view, found), kept in self._kept.items()
            for passage in kept.values()
        ]
        hits.sort(key=lambda hit: (hit.in_view, -hit.score, -hit.passage.seq, hit.passage.part, hit.passage.offset))
        chosen: dict[Place, Hit] = {}
        for hit in hits:
            chosen.setdefault((hit.passage.message_id, hit.passage.part), hit)
        return list(chosen.values())[:limit]


def weights(query: Query, rankings: Iterable[Ranking]) -> tuple[float, ...]:
    """What each term is worth: the rarer among all passages, the more."""
    seen, counts = 0, Counter[int]()
    for ranking in rankings:
        seen += ranking.seen
        counts.update(ranking.counts)
    holding = [sum(n for found, n in counts.items() if found >> bit & 1) for bit in range(len(query.terms))]
    return tuple(math.log1p(seen / (1 + held)) for held in holding)


def _weight(found: int, weights: Sequence[float]) -> float:
    return sum(weight for bit, weight in enumerate(weights) if found >> bit & 1)


def snippet(text: str, query: Query, chars: int) -> str:
    """At most about `chars` characters of a text around its longest found term; dots stand for what is left out."""
    if len(text) <= chars:
        return text
    folded = fold(text)
    found = max((term for term in query.terms if term in folded), key=len, default="")
    # Folding may change lengths, so a place in the folded text is only nearly one in the text.
    middle = (folded.find(found) + len(found) // 2) * len(text) // max(1, len(folded))
    start = max(0, min(middle - chars // 2, len(text) - chars))
    head, tail = "… " if start else "", " …" if start + chars < len(text) else ""
    return f"{head}{text[start : start + chars]}{tail}"
