"""Which of the words that people said a replacement keeps, and in what form.

Invariant: as long as they fit, all are kept verbatim. Where they do not, nothing is invented and every form but the
verbatim one is made by leaving something out. What gives way first is talk; then the oldest statements are told
tersely (no articles, no forms of "to be"), only as many as need be; then whole words are left out. What was said last
is kept before what was said first, and of two statements about one thing the earlier one never without the later one.

A *statement* is what an agent can break or get wrong: it forbids, demands, prefers, changes something, or names a
figure, code, date, address or person. Which words say so is common English usage, listed below; a language that the
lists do not know is told by its figures and names alone, and then by what is newest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ullage.context.shorten import clip_tokens
from ullage.core.context import Word
from ullage.core.ports import TokenCounter

FRAMING = "\n• "
"""What a word costs in a head beside its text."""
LEAST = 60
"""No word is clipped to less, in tokens."""
LONG = 4
"""A word that takes more than one of so many parts of the room is no statement: it is a text with many."""
COMPARED = 300
"""So many of the newest statements are compared with each other."""
STEM = 5
"""Two words are one when they begin with the same letters, so many of them."""
ALIKE = 2
"""Fewer common words make no common subject, unless a label does."""
STATEMENT_CHARS = 1_000
"""A longer text is no statement."""
STATEMENT = 2
"""Weight from which on a text is a statement."""

_RULE = re.compile(
    r"\b(never|always|must|mustn't|only|don't|do not|cannot|can't|without|unless|until|avoid|require[sd]?|forbidden|"
    r"not allowed|no longer|instead|should|shall|at (?:most|least)|under no|stop|keep|ensure|make sure|"
    r"want(?:s|ed)?|prefer(?:s|red|ably)?|rather|please|remember|important|careful)\b",
    re.IGNORECASE,
)
"""Demands, bans and wishes."""
_CHANGE = re.compile(
    r"\b(now|from now on|update[ds]?|chang(?:e|ed|es)|moved|switch(?:ed)?|renamed|replaced|new|next|current(?:ly)?|"
    r"awaiting|pending|open question|decided|agreed|deadline)\b",
    re.IGNORECASE,
)
"""What replaces something that was said before, and where things stand."""
_LABEL = re.compile(r"\s*(?:[-*]\s*)?[A-Za-z][\w ]{1,30}:\s")
"""`Note: …`: who labels a line wants it found again."""
_NAMED = re.compile(r"\d|[$€£]\w|https?:|\w/\w|`[^`]+`|\"[^\"]+\"|\b[A-Z]{2,}\b|(?<=[a-z,:] )[A-Z][a-z]+|\b\w+_\w+\b")
"""Figures, money, addresses, paths, quotations, capitals and names inside a sentence."""

_FILLERS = re.compile(
    r"\b(?:the|a|an|is|are|was|were|been|has|have|its|our|my|your|their|we|this|that|please|very|really|just)\s+",
    re.IGNORECASE,
)
"""Words that a telegram leaves out: articles and pointing words, forms of "to be" and "have", whose a thing is,
politeness."""
_SAYS = re.compile(r"\b(?:is|are|was|were)\s+|:\s+", re.IGNORECASE)
"""Behind it stands what a statement says of its subject."""


def weight(text: str) -> int:
    """How much of a statement a text is: 0 (talk, or a text too long to be one) to 5."""
    if len(text) > STATEMENT_CHARS:
        return 0
    marks = (_CHANGE.search(text), _NAMED.search(text), _LABEL.match(text))
    return 2 * bool(_RULE.search(text)) + sum(map(bool, marks))


def terse(text: str) -> str:
    """The text as a telegram would have it. Nothing is added; negations, demands, figures and names stay.

    What a statement says of its subject (behind "is" or a colon) stays to the letter.
    """
    if "\n" in text:
        return _FILLERS.sub("", text)
    head, rest = label(text), text.removeprefix(label(text)).removesuffix(".")
    says = _SAYS.search(rest)
    subject, value = (rest[: says.end()], rest[says.end() :]) if says else (rest, "")
    short = head + _FILLERS.sub("", subject) + value
    return short if short.strip() else text


@dataclass(frozen=True, slots=True)
class _Choice:
    place: int
    word: Word
    weight: int
    tokens: int


def chosen(words: Iterable[Word], room: int, counter: TokenCounter) -> list[Word]:
    """The words to keep within `room` tokens, in the order they were said. Of equal ones the newest stays.

    A statement that a later one seems to replace is not kept without that one.
    """
    once = list({word.text: word for word in words}.values())
    found = [_choice(place, word, counter) for place, word in enumerate(once)]
    if sum(choice.tokens for choice in found) <= room:
        return [choice.word for choice in found]
    statements = [choice for choice in found if choice.weight >= STATEMENT]
    later = _replaced(statements)
    statements = [choice for choice in statements if choice.tokens * LONG <= room]
    kept: dict[int, _Choice] = {}
    for choice in (*found[-1:], *_ranked(_tersely(statements, room, counter), later), *reversed(found)):
        if choice.place in kept or not kept.keys() >= later.get(choice.place, frozenset()):
            continue
        if choice.tokens > room >= LEAST:
            choice = _clipped(choice, max(LEAST, room // 2), counter)
        if choice.tokens <= room:
            room -= choice.tokens
            kept[choice.place] = choice
    return [kept[place].word for place in sorted(kept)]


def by_label(words: Iterable[Word]) -> list[Word]:
    """Words with one label beside each other, each label where it stood first."""
    groups: dict[str, list[Word]] = {}
    for number, word in enumerate(words):
        groups.setdefault(label(word.text) or str(number), []).append(word)
    return [word for group in groups.values() for word in group]


def label(text: str) -> str:
    """The label that a one-line text begins with, colon and space included; empty if it has none."""
    found = _LABEL.match(text)
    return found[0] if found and "\n" not in text else ""


def _choice(place: int, word: Word, counter: TokenCounter) -> _Choice:
    return _Choice(place, word, weight(word.text), counter.count(FRAMING + word.text))


def _ranked(statements: list[_Choice], later: dict[int, frozenset[int]]) -> list[_Choice]:
    """The shortest first, so that most are kept; of equal ones the newest; last what a later one seems to replace,
    newest first."""
    standing = [choice for choice in statements if choice.place not in later]
    replaced = [choice for choice in reversed(statements) if choice.place in later]
    return [*sorted(standing, key=lambda choice: (choice.tokens, -choice.place)), *replaced]


def _replaced(statements: list[_Choice]) -> dict[int, frozenset[int]]:
    """Places of statements to those of later ones about the same subject.

    A guess, so it only decides what goes first when something must.
    """
    told = [_Told(choice.place, label(choice.word.text), _subject(choice.word.text)) for choice in statements]
    told = told[-COMPARED:]
    uses = Counter(word for one in told for word in one.subject)
    found: dict[int, frozenset[int]] = {}
    for index, one in enumerate(told):
        if later := [other.place for other in told[index + 1 :] if _alike(one, other, uses)]:
            found[one.place] = frozenset(later)
    return found


@dataclass(frozen=True, slots=True)
class _Told:
    place: int
    label: str
    subject: frozenset[str]


def _alike(one: _Told, other: _Told, uses: Counter[str]) -> bool:
    """Whether two statements share most of their words, or, under one label, a word that no third statement uses."""
    shared = one.subject & other.subject
    if one.label and one.label == other.label and any(uses[word] == 2 for word in shared):
        return True
    return len(shared) >= ALIKE and len(shared) > min(len(one.subject), len(other.subject)) // 2


def _subject(text: str) -> frozenset[str]:
    """What a statement is about: its longer words without figures and names, and without its label."""
    words = _FILLERS.sub("", text.removeprefix(label(text))).split()
    first, rest = words[:1], words[1:]
    plain = [*first, *(word for word in rest if not _NAMED.search(f"x {word}"))]
    said = (word.strip(".,:;!?()").lower() for word in plain)
    return frozenset(word[:STEM] for word in said if len(word) > 3 and not _RULE.fullmatch(word))


def _tersely(statements: list[_Choice], room: int, counter: TokenCounter) -> list[_Choice]:
    """The statements, told tersely from the oldest on until all fit or all are terse."""
    total, told = sum(choice.tokens for choice in statements), list(statements)
    for index, choice in enumerate(statements):
        if total <= room:
            break
        told[index] = _choice(choice.place, replace(choice.word, text=terse(choice.word.text)), counter)
        told[index] = replace(told[index], weight=choice.weight)
        total -= choice.tokens - told[index].tokens
    return told


def _clipped(choice: _Choice, most: int, counter: TokenCounter) -> _Choice:
    word = choice.word
    text = clip_tokens(word.text, most - counter.count(FRAMING), counter, word.message_id)
    return replace(choice, word=replace(word, text=text), tokens=counter.count(FRAMING + text))
