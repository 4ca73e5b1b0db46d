"""`ullage replay FILE`: how a recorded session of another agent would have fared.

Two passes. The first compares our projection of each request with what the recording's provider then reported. The
second plays the session again through our engine, in a window of choice and with our own system prompt and tools: when
it would have reminded, compacted, what was kept, and what the prompts would have cost with the cache priced.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from ullage.core.errors import BadInput
from ullage.core.events import AnswerReceived
from ullage.core.ports import TokenCounter
from ullage.importers.reading import read
from ullage.importers.story import Imported
from ullage.lab.projection import Projected, billing_of, errors, projections
from ullage.lab.script import script
from ullage.lab.walk import Walk, walk

DEFAULT_WINDOW = 200_000
_WORST = 5
_REMEMBERED = 65_536
"""Texts whose counts are remembered: the passes count each of them several times."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a session file of Claude Code, codex or pi")
    parser.add_argument("--window", type=int, default=DEFAULT_WINDOW, metavar="TOKENS", help="default: 200000")
    parser.add_argument("--profile", default="ullage", help="the way the session is kept inside its window")
    parser.add_argument("--json", action="store_true", help="figures as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the report.

    Raises:
        BadInput: the file, the window or the profile.
    """
    if args.window < 8_000:
        raise BadInput(f"A window of {args.window:,} tokens is too small.", hint="Give at least 8000.")
    if args.profile != "ullage":
        raise BadInput(f"There is no profile {args.profile!r} to replay with.", hint="Leave it out, or say ullage.")
    from ullage.providers.tokens import load_counter

    counter = Remembering(load_counter())
    figures = report(read(args.file, counter), args.window, counter)
    print(json.dumps(figures, indent=2) if args.json else as_text(figures))
    return 0


class Remembering:
    """A counter that counts a text once."""

    def __init__(self, counter: TokenCounter) -> None:
        self.encoding = counter.encoding
        self.count = lru_cache(_REMEMBERED)(counter.count)


def report(imported: Imported, window: int, counter: TokenCounter) -> dict[str, Any]:
    """All figures of both passes, as JSON values. Tokens and percent."""
    model = _model(imported)
    billing = billing_of(imported.state, model)
    walked = walk(script(imported.entries), window, counter, model=model, billing=billing)
    answers = sum(isinstance(entry.event, AnswerReceived) for entry in imported.entries)
    return {
        "session": {
            "format": imported.format,
            "model": model,
            "answers": answers,
            "compactions": imported.state.facts.compactions,
            "unanswered_calls": len(imported.unanswered),
            "damaged_lines": len(imported.damage),
        },
        "projection": _projection(projections(imported.entries)),
        "walk": _walked(walked, billing),
    }


def _model(imported: Imported) -> str:
    """The model that answered most."""
    said = (entry.event for entry in imported.entries)
    counted = Counter(event.model for event in said if isinstance(event, AnswerReceived) and event.usage.prompt)
    return counted.most_common(1)[0][0] if counted else ""


def _projection(found: list[Projected]) -> dict[str, Any]:
    measured = [step for step in found if step.measured]
    rest = [step for step in found if not step.measured]
    worst = sorted(measured, key=lambda step: -abs(step.error))[:_WORST]
    return {
        "learned": asdict(errors([step.error for step in measured])),
        "without_ratio": asdict(errors([step.plain_error for step in measured])),
        "estimated_whole": asdict(errors([step.error for step in rest])),
        "worst": [
            {"seq": s.seq, "billed": s.billed, "projected": s.learned, "new": s.new, "why": s.why} for s in worst
        ],
    }


def _walked(walked: Walk, billing: int) -> dict[str, Any]:
    cost, endless = walked.cost
    sent, all_sent = sum(step.prompt for step in walked.steps), sum(step.endless for step in walked.steps)
    return {
        "window": walked.window,
        "billing_per_mille": billing,
        "requests": len(walked.steps),
        "answers_not_reached": walked.skipped,
        "largest_request": max((step.prompt for step in walked.steps), default=0),
        "phases": {str(phase): count for phase, count in walked.phases.items()},
        "handoffs": walked.handoffs,
        "compactions": [
            {
                "before": made.before,
                "after": made.after,
                "kept_messages": made.kept_messages,
                "dropped_messages": made.dropped_messages,
            }
            for made in walked.reports
        ],
        "failures": [failure.message for failure in walked.failures],
        "sent_percent": round(100 * sent / all_sent, 1) if all_sent else 100.0,
        "cost_percent": round(100 * cost / endless, 1) if endless else 100.0,
    }


# --- for people ---


def as_text(figures: dict[str, Any]) -> str:
    """The report as lines."""
    return "\n".join([*_session_lines(figures["session"]), "", *_projection_lines(figures["projection"]), "",
                      *_walk_lines(figures["walk"])])  # fmt: skip


def _session_lines(session: dict[str, Any]) -> list[str]:
    lines = [
        f"{session['format']} session: {session['answers']:,} answers of {session['model'] or 'no named model'}, "
        f"{session['compactions']} compactions, {session['unanswered_calls']} calls without a result"
    ]
    if session["damaged_lines"]:
        lines.append(f"  {session['damaged_lines']:,} places could not be read; the rest was.")
    return lines


def _projection_lines(projection: dict[str, Any]) -> list[str]:
    lines = [
        "Projection of a request, against what the provider reported",
        "",
        _row("", "steps", "median", "p95", "low"),
    ]
    names = {
        "learned": "with the learned ratio",
        "without_ratio": "without it",
        "estimated_whole": "nothing measured before",
    }
    for key, name in names.items():
        found = projection[key]
        figures = (f"{found['median']:.2f} %", f"{found['p95']:.2f} %", f"{found['too_low']:.0f} %")
        lines.append(_row(name, f"{found['steps']:,}", *(figures if found["steps"] else ("-", "-", "-"))))
    if projection["worst"]:
        lines += ["", "  Furthest off:"]
    for step in projection["worst"]:
        off = step["projected"] - step["billed"]
        lines.append(f"    event {step['seq']}: {off:+,} of {step['billed']:,} ({step['new']:,} new): {step['why']}")
    return lines


def _row(name: str, *cells: str) -> str:
    return f"  {name:<26}" + "".join(f"{cell:>11}" for cell in cells)


def _walk_lines(walked: dict[str, Any]) -> list[str]:
    made = walked["compactions"]
    phases = ", ".join(f"{count:,} {phase.replace('_', ' ')}" for phase, count in walked["phases"].items() if count)
    lines = [
        f"In a window of {walked['window']:,} tokens, with our system prompt and tools",
        "",
        f"  {walked['requests']:,} requests ({phases}), the largest {walked['largest_request']:,} tokens",
        f"  {walked['handoffs']} handoffs, {len(made)} compactions",
    ]
    lines += [
        f"    {each['before']:,} to {each['after']:,} tokens; {each['kept_messages']:,} messages kept, "
        f"{each['dropped_messages']:,} replaced"
        for each in made
    ]
    lines += [f"  A turn ended: {failure}" for failure in walked["failures"]]
    if walked["answers_not_reached"]:
        lines.append(f"  {walked['answers_not_reached']:,} recorded answers came after such an end.")
    lines.append(
        f"  Sent {walked['sent_percent']:.0f} % of what an endless window would send; with the cache priced that "
        f"costs {walked['cost_percent']:.0f} %."
    )
    return lines
