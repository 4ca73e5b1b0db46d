"""The explorer's memory: notes that it writes into every answer, and reads back from whatever is left of them.

Invariant: what the explorer goes by is in its text. It has no state of its own, so a compaction, a restart or a fork
costs it nothing but what the newest notes do not say. Notes are therefore short, understandable to a person, and
readable even when something joined their lines or cut their end: a label, then values in backticks. What leads
on (step, plan, next files) comes first, and notes cut before their plan are none: a step number without a plan, or
a plan without a step number, could start the work anew for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Place:
    """A line that was found; lines count from 1."""

    path: str
    line: int
    excerpt: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.excerpt}".rstrip()


@dataclass(frozen=True, slots=True)
class Span:
    """Lines `first` to `last` of a file."""

    path: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"read {self.path} {self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Notes:
    """Plan, progress and findings. A prompt begins at step 0."""

    plan: tuple[str, ...] = ()
    """What the answer with these notes asks for; a `Span` as text is a read. Empty: it was the report."""
    queue: tuple[str, ...] = ()
    """Files to begin next."""
    further: int = 1
    """Files behind the queue that only a new listing can name; 1 before the first listing."""
    after: str = ""
    """The last file ever queued; a new listing is taken up behind it."""
    step: int = 0
    begun: int = 0
    """Files begun for this prompt."""
    wanted: str = ""
    """What a question asks for; empty when exploring."""
    folder: str = "."
    read: int = 0
    """Files read to their end, over all prompts."""
    listed: int = 0
    languages: tuple[str, ...] = ()
    biggest: tuple[str, ...] = ()
    test_files: int = 0
    entries: tuple[Place, ...] = ()
    todos: tuple[Place, ...] = ()
    tests: tuple[Place, ...] = ()
    hits: tuple[Place, ...] = ()

    @property
    def done(self) -> bool:
        """Whether these notes end a prompt."""
        return not self.plan

    @property
    def spans(self) -> tuple[Span, ...]:
        """The reads of the plan."""
        return tuple(span for span in map(_span, self.plan) if span)

    def at_most(self, count: int) -> Notes:
        """The same notes with at most `count` findings of a kind."""
        return replace(self, **{name: getattr(self, name)[:count] for name in _FINDINGS})


_FINDINGS = ("languages", "biggest", "entries", "todos", "tests", "hits")


@dataclass(frozen=True, slots=True)
class _Layout:
    """How values follow their label, and what stands between two labels."""

    before: str
    between: str
    end: str


_LINE = _Layout(" ", ", ", ". ")
_LIST = _Layout("\n- ", "\n- ", "\n\n")


def write(notes: Notes) -> str:
    """The notes as text, on two lines; as a list of findings where they end a prompt."""
    layout = _LIST if notes.done else _LINE
    return (_labelled(_progress(notes), _LINE) + "\n" + _labelled(_found(notes), layout)).strip()


def _progress(notes: Notes) -> list[tuple[str, Iterable[object]]]:
    return [
        ("Step", (notes.step,)),
        ("Begun", (notes.begun,)),
        ("Further", [notes.further] if notes.further else ()),
        ("Plan", notes.plan or ("done",)),
        ("Then", notes.queue),
        ("After", [notes.after] if notes.after else ()),
        ("Question", [notes.wanted] if notes.wanted else ()),
        ("Folder", (notes.folder,)),
        ("Files", (f"{notes.read} read", f"{notes.listed} listed", f"{notes.test_files} with tests")),
    ]


def _found(notes: Notes) -> list[tuple[str, Iterable[object]]]:
    return [
        ("Languages", notes.languages),
        ("Entry points", notes.entries),
        ("Biggest files", notes.biggest),
        ("TODOs", notes.todos),
        ("Tests", notes.tests),
        ("Hits", notes.hits),
    ]


def _labelled(rows: Iterable[tuple[str, Iterable[object]]], layout: _Layout) -> str:
    texts = [(label, [f"`{quotable(str(value))}`" for value in values]) for label, values in rows]
    return "".join(f"{label}:{layout.before}{layout.between.join(v)}{layout.end}" for label, v in texts if v)


def quotable(text: str) -> str:
    """Text that can stand between backticks on one line."""
    return " ".join(text.replace("`", "'").split())


# --- reading them back ---

_LABELS = (
    "Step|Begun|Further|Plan|Then|After|Question|Folder|Files|Languages|Entry points|Biggest files|TODOs|Tests|Hits"
)
_ROW = re.compile(rf"\b(?P<label>{_LABELS}):(?P<values>(?:[\s,*-]*`[^`]*`)+)")
_VALUE = re.compile(r"`([^`]*)`")
_START = re.compile(r"\bStep: `")
_PLACE = re.compile(r"(?P<path>.+?):(?P<line>\d{1,9})(?: (?P<excerpt>.*))?")
_SPAN = re.compile(r"read (?P<path>.+) (?P<first>\d{1,9})-(?P<last>\d{1,9})")


def parse(text: str) -> Notes | None:
    """The first notes in a text, None where there are none. Never raises, whatever was cut away."""
    start = _START.search(text)
    if start is None:
        return None
    following = _START.search(text, start.end())
    end = following.start() if following else len(text)
    rows = _ROW.finditer(text, start.start(), end)
    read = _Read({row["label"]: _VALUE.findall(row["values"]) for row in rows})
    return read.notes() if read.number("Step") and read.texts("Plan") else None


@dataclass(frozen=True, slots=True)
class _Read:
    rows: dict[str, list[str]] = field(default_factory=dict)

    def notes(self) -> Notes:
        plan = self.texts("Plan")
        return Notes(
            plan=() if plan == ("done",) else plan,
            queue=self.texts("Then"),
            further=self.number("Further"),
            after=self.text("After"),
            step=self.number("Step"),
            begun=self.number("Begun"),
            wanted=self.text("Question"),
            folder=self.text("Folder") or ".",
            read=self.number("Files", 0),
            listed=self.number("Files", 1),
            test_files=self.number("Files", 2),
            languages=self.texts("Languages"),
            biggest=self.texts("Biggest files"),
            entries=self.places("Entry points"),
            todos=self.places("TODOs"),
            tests=self.places("Tests"),
            hits=self.places("Hits"),
        )

    def texts(self, label: str) -> tuple[str, ...]:
        return tuple(self.rows.get(label, ()))

    def text(self, label: str) -> str:
        return next(iter(self.rows.get(label, ())), "")

    def number(self, label: str, index: int = 0) -> int:
        values = self.rows.get(label, [])
        digits = re.match(r"\d{1,9}", values[index]) if index < len(values) else None
        return int(digits[0]) if digits else 0

    def places(self, label: str) -> tuple[Place, ...]:
        return tuple(place for place in map(parse_place, self.rows.get(label, ())) if place)


def parse_place(text: str) -> Place | None:
    """A `path:line excerpt`, None when it is none."""
    match = _PLACE.fullmatch(text)
    return Place(match["path"], int(match["line"]), match["excerpt"] or "") if match else None


def _span(text: str) -> Span | None:
    match = _SPAN.fullmatch(text)
    return Span(match["path"], int(match["first"]), int(match["last"])) if match else None
