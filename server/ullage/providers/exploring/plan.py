"""One step of the explorer: take in what came back, then decide what to ask for.

Invariant: every answer either ends the prompt or has a step number one above the notes it goes by, and the step
numbered `explorer_steps` is a report. Where a summary lost the notes, the answer is a report of what is left: starting
anew would start anew for ever. So each prompt ends, and the same request always gets the same answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from ullage.providers.exploring import survey
from ullage.providers.exploring.notes import Notes, Place, Span
from ullage.providers.exploring.prompt import Aim, newest_aim, search_pattern
from ullage.providers.exploring.survey import Find, Listed
from ullage.providers.exploring.view import Seen, View
from ullage.providers.limits import Limits

_LIST = "list files"
_LIST_AGAIN = "list files again"
_AROUND = 20  # lines shown before a hit
_UNKNOWN = re.compile(r"outcome\b.{0,20}\bunknown", re.IGNORECASE)  # the process ended before the result was recorded


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call: `label` names it in the plan, `arguments` is JSON text."""

    label: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Step:
    """An answer before it is worded: a sentence, the notes, and the calls; without calls it is the report."""

    say: str
    notes: Notes
    asks: tuple[Ask, ...]


def decide(view: View, limits: Limits) -> Step:
    """The next step after what is in sight."""
    if view.notes is None and view.summarised:
        return _lost(view, limits)
    notes = view.notes or Notes(plan=("begin",))
    open_spans: tuple[Span, ...] = ()
    if not notes.done:
        notes, open_spans = _take_in(notes, view, limits)
    if aim := _new_aim(notes, view):
        notes, open_spans = _begin(notes, aim), ()
    asks, notes = _choose(notes, open_spans, view, limits)
    notes = replace(notes, step=notes.step + 1, plan=tuple(ask.label for ask in asks))
    notes = notes if asks else _settled(notes)
    return Step(_say(notes, asks), notes, asks)


def _settled(notes: Notes) -> Notes:
    """Notes at a prompt's end: the next prompt finds the files that were queued behind the last one begun."""
    return replace(notes, queue=(), further=len(notes.queue) + notes.further)


def _new_aim(notes: Notes, view: View) -> Aim | None:
    """What a new prompt, or a steering message, asks for; None to go on as before."""
    aim = newest_aim(view.said)
    if notes.done:
        # A question is answered; whatever follows it, such as "continue", is about the workspace again.
        return aim or Aim(folder=notes.folder)
    return None if aim is None or _same(aim, notes) else aim


def _same(aim: Aim, notes: Notes) -> bool:
    """A summary repeats the task of the turn, which must not begin anew for that."""
    return aim.wanted == notes.wanted and (bool(aim.wanted) or aim.folder == notes.folder)


def _begin(notes: Notes, aim: Aim) -> Notes:
    if aim.anew:
        return Notes(plan=notes.plan)
    fresh = replace(_settled(notes), step=0, begun=0, wanted=aim.wanted, hits=())
    if aim.wanted:
        return fresh
    if aim.folder == notes.folder:
        return replace(fresh, further=max(1, fresh.further))
    return replace(fresh, folder=aim.folder, further=1, after="", read=0, listed=0)


def _lost(view: View, limits: Limits) -> Step:
    """The report when a summary kept no notes: go on behind the files it names, but only when asked to."""
    named = dict.fromkeys(path for text in view.said for path in _files_read(text) if survey.language(path))
    after = max(named, key=survey.reading_order(named), default="")
    notes = Notes(after=after[: limits.explorer_path_characters], read=len(named))
    say = 'My notes did not outlive the summary, so I stop here. Say "continue" and I go on with other files.'
    return Step(say, notes, ())


def _files_read(text: str) -> list[str]:
    """Paths below a digest's title "Files read"."""
    listed = re.search(r"^Files read.*\n((?:- .+\n?)+)", text, re.MULTILINE)
    return [line.removeprefix("- ") for line in listed[1].splitlines()] if listed else []


# --- taking in ---


def _take_in(notes: Notes, view: View, limits: Limits) -> tuple[Notes, tuple[Span, ...]]:
    """Notes with what the results tell, and the next spans of the files that go on."""
    for seen in view.results:
        notes = _learn(notes, seen, view, limits)
    reads = [seen for seen in view.results if seen.tool == "read"]
    spans: list[Span] = []
    for span in notes.spans:
        following = _following(span, _result_of(span, reads), limits)
        if following:
            spans.append(following)
        else:
            notes = replace(notes, read=notes.read + (0 if notes.wanted else 1))
    return notes, () if notes.wanted else tuple(spans)


def _result_of(span: Span, reads: Sequence[Seen]) -> Seen | None:
    wanted = (span.path, span.first)
    return next((r for r in reads if (r.arguments.get("path"), r.arguments.get("first_line")) == wanted), None)


def _following(span: Span, seen: Seen | None, limits: Limits) -> Span | None:
    """Where to read on, None at the file's end. A result that a compaction took away counts as read."""
    if seen is None:
        return _span(span.path, span.last + 1, limits)
    if seen.is_error:
        return span if _UNKNOWN.search(seen.text) else None
    lines = survey.parse_lines(seen.text)
    more = survey.goes_on(seen.text) or bool(lines and lines[-1][0] >= span.last)
    return _span(span.path, lines[-1][0] + 1, limits) if lines and more else None


def _span(path: str, first: int, limits: Limits) -> Span | None:
    return Span(path, first, first) if first <= limits.explorer_lines_per_file else None


def _learn(notes: Notes, seen: Seen, view: View, limits: Limits) -> Notes:
    if seen.is_error:
        return replace(notes, further=0) if seen.tool in ("list", "glob") and not notes.wanted else notes
    match seen.tool:
        case "list" | "glob" if not notes.wanted:
            return _learn_listing(notes, seen.text, limits)
        case "glob":
            files = survey.parse_listing(seen.text)
            return _with_hits(notes, [Place(file.path, 1, "(its name)") for file in files], limits)
        case "grep" if notes.wanted:
            return _with_hits(notes, survey.parse_hits(seen.text, limits), limits)
        case "grep":
            return _learn_hits(notes, survey.parse_hits(seen.text, limits), view, limits)
        case "read":
            path = str(seen.arguments.get("path", ""))
            lines = survey.parse_lines(seen.text)
            return _learn_lines(notes, [Place(path, number, text) for number, text in lines], limits)
        case _:
            return notes


def _learn_listing(notes: Notes, text: str, limits: Limits) -> Notes:
    """A listing that a compaction cut says too little: files it leaves out would be passed over for good."""
    if survey.is_cut(text) and notes.plan != (_LIST_AGAIN,):
        return notes
    files = survey.parse_listing(text)
    return replace(_learn_files(notes, files, limits), listed=survey.listed_in_all(text, len(files)))


def _learn_files(notes: Notes, files: Sequence[Listed], limits: Limits) -> Notes:
    """Take a listing's facts, and fill the queue with what comes next in the order of reading."""
    known = replace(
        notes,
        listed=len(files),
        test_files=sum(survey.is_test(file.path) for file in files),
        languages=tuple(survey.languages(files))[: limits.explorer_findings],
        biggest=tuple(survey.biggest(files))[: limits.explorer_findings],
    )
    return _fill(known, files, limits)


def _fill(notes: Notes, files: Iterable[Listed], limits: Limits) -> Notes:
    paths = [file.path for file in files if survey.worth_reading(file, limits)]
    order = survey.reading_order(paths)
    last = next((path for path in (*reversed(notes.queue), notes.after) if path), "")
    behind = order(last) if last else None
    places = sorted((order(path), path) for path in paths)
    waiting = [path for place, path in places if behind is None or place > behind]
    taken = waiting[: max(0, limits.explorer_queue - len(notes.queue))]
    return replace(notes, queue=(*notes.queue, *taken), further=len(waiting) - len(taken))


def _learn_hits(notes: Notes, places: Sequence[Place], view: View, limits: Limits) -> Notes:
    notes = _learn_lines(notes, places, limits)
    if {"list", "glob"} & view.tools:
        return notes
    files = [Listed(path, None) for path in dict.fromkeys(place.path for place in places)]
    return _learn_files(notes, files, limits)


def _learn_lines(notes: Notes, places: Iterable[Place], limits: Limits) -> Notes:
    """Findings among lines: every TODO, but one entry point and one test of a file."""
    found: dict[Find, list[Place]] = {
        Find.ENTRY: list(notes.entries),
        Find.TODO: list(notes.todos),
        Find.TEST: list(notes.tests),
    }
    for place in places:
        kind = survey.judge(place.excerpt)
        if kind and len(found[kind]) < limits.explorer_findings and _is_news(kind, place, found[kind]):
            found[kind].append(replace(place, excerpt=survey.excerpt(place.excerpt, limits)))
    return replace(
        notes, entries=tuple(found[Find.ENTRY]), todos=tuple(found[Find.TODO]), tests=tuple(found[Find.TEST])
    )


def _is_news(kind: Find, place: Place, known: Iterable[Place]) -> bool:
    if kind is Find.TODO:
        return all((other.path, other.line) != (place.path, place.line) for other in known)
    return all(other.path != place.path for other in known)


def _with_hits(notes: Notes, places: Sequence[Place], limits: Limits) -> Notes:
    """Definitions before uses before names of files."""
    ranked = sorted(places, key=lambda place: not survey.is_definition(place.excerpt))
    return replace(notes, hits=(*notes.hits, *ranked)[: limits.explorer_findings])


# --- choosing ---


def _choose(notes: Notes, open_spans: tuple[Span, ...], view: View, limits: Limits) -> tuple[tuple[Ask, ...], Notes]:
    if notes.step + 1 >= limits.explorer_steps:
        return (), notes
    if notes.wanted:
        return tuple(ask for ask in _answer_question(notes, limits) if ask.tool in view.tools), notes
    if notes.step == 0 and (listing := _list_files(notes, view, limits)):
        return listing, notes
    if notes.step <= 1 and not notes.read and (searches := _search_all(notes, view, limits)):
        return searches, notes
    return _read_on(notes, open_spans, view, limits)


def _answer_question(notes: Notes, limits: Limits) -> Iterable[Ask]:
    """Search, then read around the first hits."""
    if notes.step == 0:
        pattern = search_pattern(notes.wanted)
        yield _ask("search", "grep", pattern=pattern, path=notes.folder, ignore_case=True, limit=limits.explorer_hits)
        yield _ask("search names", "glob", pattern=f"*{_glob_word(notes.wanted)}*", limit=limits.explorer_hits)
    elif notes.step == 1:
        first_hits = {hit.path: hit for hit in reversed(notes.hits)}
        for hit in [hit for hit in notes.hits if first_hits[hit.path] is hit][: limits.explorer_reads_per_step]:
            first = max(1, hit.line - _AROUND)
            last = first + limits.explorer_lines_per_step // limits.explorer_reads_per_step - 1
            yield _ask_read(Span(hit.path, first, last))


def _glob_word(wanted: str) -> str:
    return re.sub(r"[^\w.-]+", "*", wanted)


def _list_files(notes: Notes, view: View, limits: Limits) -> tuple[Ask, ...]:
    """A listing; when the last one came back cut, once more: cut again, it is as long as a result may be."""
    label = _LIST_AGAIN if notes.plan == (_LIST,) else _LIST
    if "list" in view.tools:
        return (_ask(label, "list", path=notes.folder, recursive=True, limit=limits.explorer_listed),)
    if "glob" in view.tools:
        return (_ask(label, "glob", pattern="**/*", path=notes.folder, limit=limits.explorer_listed),)
    return ()


def _search_all(notes: Notes, view: View, limits: Limits) -> tuple[Ask, ...]:
    if "grep" not in view.tools:
        return ()
    return tuple(
        _ask(f"search {find.value}", "grep", pattern=pattern, path=notes.folder, limit=limits.explorer_hits)
        for find, pattern in survey.PATTERNS.items()
    )


def _read_on(notes: Notes, open_spans: tuple[Span, ...], view: View, limits: Limits) -> tuple[tuple[Ask, ...], Notes]:
    """The next reads; a new listing when the queue ran dry before the files did; else nothing, which ends it."""
    if "read" not in view.tools:
        return (), notes
    room = limits.explorer_files - notes.begun
    if not open_spans and not notes.queue and notes.further and room > 0:
        if not _usable(view.listing, notes):
            return _list_files(notes, view, limits), notes
        notes = _fill(notes, survey.parse_listing(view.listing.text), limits)
    free = max(0, min(limits.explorer_reads_per_step - len(open_spans), room))
    begun, queue = notes.queue[:free], notes.queue[free:]
    firsts = [*((span.path, span.first) for span in open_spans), *((path, 1) for path in begun)]
    lines = limits.explorer_lines_per_step // max(1, len(firsts))
    asks = tuple(_ask_read(Span(path, first, first + lines - 1)) for path, first in firsts)
    after = begun[-1] if begun else notes.after
    return asks, replace(notes, queue=queue, after=after, begun=notes.begun + len(begun))


def _usable(listing: Seen | None, notes: Notes) -> TypeGuard[Seen]:
    """Whether a listing in sight tells what comes next."""
    return listing is not None and listing.arguments.get("path") == notes.folder and not survey.is_cut(listing.text)


def _ask_read(span: Span) -> Ask:
    lines = span.last - span.first + 1
    return Ask(str(span), "read", json.dumps({"path": span.path, "first_line": span.first, "lines": lines}))


def _ask(label: str, tool: str, **arguments: str | int | bool) -> Ask:
    return Ask(label, tool, json.dumps(arguments))


# --- wording ---


def _say(notes: Notes, asks: tuple[Ask, ...]) -> str:
    if not asks:
        return _conclusion(notes)
    match asks[0].tool:
        case "list" | "glob":
            return "I look at what files there are."
        case "grep":
            return f"I search for {notes.wanted or 'entry points, TODOs and tests'}."
        case _:
            return "I read around the hits." if notes.wanted else "I read on."


def _conclusion(notes: Notes) -> str:
    if notes.wanted:
        return f"This is where I found {notes.wanted}." if notes.hits else f"I found no trace of {notes.wanted}."
    where = "the workspace" if notes.folder == "." else notes.folder
    if not notes.read and not notes.further:
        return f"There is nothing to read in {where}: {notes.listed} files are listed, none of them a text I know."
    if notes.further:
        rest = f'{notes.further} more can be read: say "continue" and I go on with them.'
    elif notes.read < notes.listed:
        rest = f"The other {notes.listed - notes.read} are no text I know, or too many: name a folder to look in."
    else:
        rest = "These are all."
    return f"I have read {notes.read} files of {where}. {rest}"
