"""`ullage sessions`: what is kept here, listed and shown, without a server.

Logs are opened for reading only, so a session that lives elsewhere may be shown too. `show --hidden` is the only way to
read the reminders that the model got and no client ever sees; they go to this terminal and nowhere else.
"""

from __future__ import annotations

import argparse
import heapq
import os
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from ullage import settings
from ullage.cli.bills import paid, resumed
from ullage.cli.output import Out
from ullage.cli.serve import now
from ullage.context.handoff import parse_record, reminder_text
from ullage.context.occupancy import occupancy, session_budget
from ullage.context.resuming import Resuming, resuming
from ullage.core.errors import BadInput, SessionUnavailable
from ullage.core.events import Entry, HandoffRecorded
from ullage.core.ports import ModelCard
from ullage.core.rewinding import standing
from ullage.core.state import Facts, State, spent
from ullage.core.views import export_view
from ullage.providers.models import price_of, read_prices
from ullage.sessions.export import blocks, document, fenced
from ullage.storage.files import DiskFiles, Files
from ullage.storage.ids import session_path, sessions_folder, workspace_key
from ullage.storage.index import SessionSummary, list_sessions
from ullage.storage.log import SessionLog

DONE = 0
NOT_UNDERSTOOD = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`list` and `show`, each with the home that it looks in."""
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    listing = actions.add_parser("list", help="the sessions of a folder, the last changed first")
    listing.add_argument("folder", metavar="DIR", nargs="?", default=".", help="the workspace (default: this folder)")
    listing.add_argument("--cost", action="store_true", help="also what each cost; opens every log, so it takes longer")
    showing = actions.add_parser("show", help="one session as Markdown")
    showing.add_argument("session", metavar="ID", help="as `list` writes it")
    showing.add_argument("--dir", metavar="DIR", help="the workspace (default: whichever has the session)")
    showing.add_argument("--hidden", action="store_true", help="also what the model was told and clients never see")
    for each in (listing, showing):
        each.add_argument("--home", metavar="HOME", help="where sessions are kept")


def run(args: argparse.Namespace) -> int:
    """0: done; 2: there is no such session, or the id is none.

    Raises:
        SessionUnavailable: the session cannot be read.
    """
    out, about = Out(sys.stdout), Out(sys.stderr)
    try:
        home = settings.load(args).settings.home
        if args.action == "list":
            return _list(DiskFiles(), home, args, out, about)
        return _show(DiskFiles(), home, args, out, about)
    except BadInput as error:
        about.error(error.report)
        return NOT_UNDERSTOOD


def _key(folder: str) -> str:
    """Of the real path, whether the folder is still there or not: its sessions are."""
    return workspace_key(os.path.realpath(folder))


# --- list ---


def _list(files: Files, home: Path, args: argparse.Namespace, out: Out, about: Out) -> int:
    key = _key(args.folder)
    found = list_sessions(files, home, key)
    for summary in found:
        cost = f"{_cost(files, session_path(home, key, summary.session_id)):>12}  " if args.cost else ""
        out.line(row(summary, cost))
    if not found:
        about.line(f"No session of {os.path.realpath(args.folder)} is kept in {home}.")
    return DONE


def _cost(files: Files, path: Path) -> str:
    try:
        opened = SessionLog.open_readonly(files, path)
    except (SessionUnavailable, OSError):
        return "unknown"
    opened.log.close()
    return paid(spent(opened.state.facts))


def row(summary: SessionSummary, cost: str = "") -> str:
    """A session in a list: id, when it changed, size, cost where it was asked for, title, marks."""
    at = datetime.fromtimestamp(summary.updated_at / 1000, UTC).astimezone()
    marks = {"fork": summary.parent is not None, "open turn": summary.open_turn, "damaged": summary.damaged}
    said = "".join(f" [{mark}]" for mark, is_so in marks.items() if is_so)
    return f"{summary.session_id}  {at:%Y-%m-%d %H:%M}  {summary.size:>11,} bytes  {cost}{summary.title or '-'}{said}"


# --- show ---


def _show(files: Files, home: Path, args: argparse.Namespace, out: Out, about: Out) -> int:
    opened = SessionLog.open_readonly(files, _find(files, home, args.session, args.dir))
    try:
        facts = opened.state.facts
        if facts.session_id != args.session:
            raise SessionUnavailable(
                f"The file of session {args.session} holds session {facts.session_id}.",
                hint="Give the file its own name again.",
                code="wrong_identity",
            )
        entries = list(opened.log.entries())
        told = blocks(standing(export_view(entries)))
        kept = heapq.merge(told, _hidden(entries), key=lambda each: each[0]) if args.hidden else told
        out.write(document(facts.title, (block for _, block in kept)))
        about.line(_paid(facts))
        about.line(resumed(_resuming(opened.state, settings.load(args))))
        if opened.log.damage:
            about.line("This session's log is damaged; what can be read is shown.")
        return DONE
    finally:
        opened.log.close()


def _resuming(state: State, resolved: settings.Resolved) -> Resuming:
    """As far as the log tells: by what a provider counted last, and estimates of what came since."""
    facts, said = state.facts, resolved.settings
    model = facts.config.model or said.model or ""
    tokens = occupancy(state, 0, session_budget(facts.config, ModelCard(model, None, "unknown")), model).used
    price = price_of(model, read_prices(said.prices or ""))
    return resuming(facts, tokens, now(), price, resolved.limits.context)


def _paid(facts: Facts) -> str:
    turns, summaries = facts.turn_totals, facts.summary_totals
    each = f"turns {paid(turns)}, summaries {paid(summaries)}"
    return f"cost        {paid(turns + summaries)} for {(turns + summaries).tokens:,} tokens ({each})"


def _find(files: Files, home: Path, session_id: str, folder: str | None) -> Path:
    keys = files.list(sessions_folder(home, "")) if folder is None else [_key(folder)]
    # Made once even without any workspace, so that a wrong id is told as one.
    paths = [session_path(home, key, session_id) for key in (*keys, "")][:-1]
    found = next((path for path in paths if files.exists(path)), None)
    if found is None:
        where = home if folder is None else folder
        hint = "`ullage sessions list DIR` lists those of a folder."
        raise BadInput(f"There is no session {session_id} of {where}.", hint=hint, code="unknown_session")
    return found


def _hidden(entries: Iterable[Entry]) -> Iterator[tuple[int, str]]:
    for entry in entries:
        if isinstance(entry.event, HandoffRecorded):
            record = parse_record(entry.event.record)
            text = entry.event.record if record is None else reminder_text(record)
            yield entry.seq, f"*[hidden: a reminder of {entry.event.tokens:,} tokens to the model]*\n\n{fenced(text)}"
