"""The explorer's memory: notes that it writes into every answer, and reads back from whatever is left of them.

Invariant: what the explorer goes by is in its text. It has no state of its own, so a compaction, a restart or a fork
costs it nothing but what the newest notes do not say. Notes are therefore short, understandable to a person, and
readable even when something joined their lines or cut them: a label, then values in backticks.

On its way, what leads on (step, plan, next files) comes first, and notes cut before their plan are none: a step number
without a plan, or a plan without a step number, could start the work anew for ever. A report is for a person: its
findings come first, and its last line says how far the reading came. No other text has that line's label.
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
    """The last file that was begun, in the order of reading."""
    step: int = 0
    """Answers to this prompt so far; a report does not say it."""
    begun: int = 0
    """Files begun for this prompt; a report does not say it."""
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


def write(notes: Notes) -> str:
    """The notes as text: two lines on the way, a list of findings with a last line where they end a prompt."""
    if notes.done:
        return "\n\n".join([*_listed(_found(notes)), "Progress: " + _progress(notes)])
    return (_line(_way(notes)) + "\n" + _line(_found(notes))).strip()


def _progress(notes: Notes) -> str:
    unread = f", `{notes.further}` are left" if notes.listed and notes.further else ""
    after = f", {'next after' if unread else 'the last was'} `{notes.after}`" if notes.after else ""
    tests = f", `{notes.test_files}` hold tests" if notes.test_files else ""
    folder = f" in folder `{notes.folder}`" if notes.folder != "." else ""
    return f"`{notes.read} of {notes.listed}` files read{unread}{after}{tests}{folder}."


def _way(notes: Notes) -> list[tuple[str, Iterable[object]]]:
    return [
        ("Step", (notes.step,)),
        ("Begun", (notes.begun,)),
        ("Further", [notes.further] if notes.further else ()),
        ("Question", [notes.wanted] if notes.wanted else ()),
        ("Folder", (notes.folder,)),
        ("Files", (f"{notes.read} read", f"{notes.listed} listed", f"{notes.test_files} with tests")),
        ("Plan", notes.plan),
        ("After", [notes.after] if notes.after else ()),
        ("Then", notes.queue),
    ]


def _found(notes: Notes) -> list[tuple[str, Iterable[object]]]:
    return [
        ("Hits", notes.hits),
        ("Languages", notes.languages),
        ("Entry points", notes.entries),
        ("Tests", notes.tests),
        ("TODOs", notes.todos),
        ("Biggest files", notes.biggest),
    ]


def _line(rows: Iterable[tuple[str, Iterable[object]]]) -> str:
    texts = ((label, _quoted(values)) for label, values in rows)
    return "".join(f"{label}: {', '.join(values)}. " for label, values in texts if values)


def _listed(rows: Iterable[tuple[str, Iterable[object]]]) -> Iterable[str]:
    for label, values in rows:
        if quoted := _quoted(values):
            yield f"{label}: {', '.join(quoted)}" if label == "Languages" else "\n- ".join([f"{label}:", *quoted])


def _quoted(values: Iterable[object]) -> list[str]:
    return [f"`{quotable(str(value))}`" for value in values]


def quotable(text: str) -> str:
    """Text that can stand between backticks on one line."""
    return " ".join(text.replace("`", "'").split())


# --- reading them back ---

_LABELS = (
    "Step|Begun|Further|Plan|Then|After|Question|Folder|Files|Languages|Entry points|Biggest files|TODOs|Tests|Hits"
)
_ROW = re.compile(rf"\b(?P<label>{_LABELS}):(?P<values>(?:[\s,*-]*`[^`\n]*`)+)")
_VALUE = re.compile(r"`([^`\n]*)`")
_START = re.compile(r"\bStep: `")
_END = re.compile(
    r"\bProgress: `(?P<read>\d{1,9}) of (?P<listed>\d{1,9})` files read(?:, `(?P<left>\d{1,9})` are left)?"
    r"(?:, (?:next after|the last was) `(?P<after>[^`\n]+)`)?(?:, `(?P<tests>\d{1,9})` hold tests)?"
    r"(?: in folder `(?P<folder>[^`\n]+)`)?\."
)
_PLACE = re.compile(r"(?P<path>.+?):(?P<line>\d{1,9})(?: (?P<excerpt>.*))?")
_SPAN = re.compile(r"read (?P<path>.+) (?P<first>\d{1,9})-(?P<last>\d{1,9})")


def parse(text: str) -> Notes | None:
    """The notes in a text, the last ones where it has several; None where there are none. Never raises."""
    start, end = _last(_START, text), _last(_END, text)
    if end and not (start and start.start() > end.start()):
        found = _Read(_rows(text[start.start() if start else 0 : end.start()]))
        return _with_findings(_report(end), found)
    if start is None:
        return None
    found = _Read(_rows(text[start.start() :]))
    return _with_findings(_on_the_way(found), found) if found.number("Step") and found.texts("Plan") else None


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(reversed(list(pattern.finditer(text)))), None)


def _rows(text: str) -> dict[str, list[str]]:
    return {row["label"]: _VALUE.findall(row["values"]) for row in _ROW.finditer(text)}


def _report(match: re.Match[str]) -> Notes:
    return Notes(
        further=int(match["left"] or 0),
        after=match["after"] or "",
        folder=match["folder"] or ".",
        read=int(match["read"]),
        listed=int(match["listed"]),
        test_files=int(match["tests"] or 0),
    )


def _on_the_way(found: _Read) -> Notes:
    return Notes(
        plan=found.texts("Plan"),
        queue=found.texts("Then"),
        further=found.number("Further"),
        after=found.text("After"),
        step=found.number("Step"),
        begun=found.number("Begun"),
        wanted=found.text("Question"),
        folder=found.text("Folder") or ".",
        read=found.number("Files", 0),
        listed=found.number("Files", 1),
        test_files=found.number("Files", 2),
    )


def _with_findings(notes: Notes, found: _Read) -> Notes:
    return replace(
        notes,
        languages=found.texts("Languages"),
        biggest=found.texts("Biggest files"),
        entries=found.places("Entry points"),
        todos=found.places("TODOs"),
        tests=found.places("Tests"),
        hits=found.places("Hits"),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """Values by label."""

    rows: dict[str, list[str]] = field(default_factory=dict)

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
