"""How commands tell what a session does: as a client would hear it, or the answer on one stream and what is about it on
another."""

from __future__ import annotations

import json
from typing import Any, Final

from ullage.cli.output import Out
from ullage.core.money import in_dollars
from ullage.editors.methods import COMPACTION, OCCUPANCY, SESSION_UPDATE

Params = dict[str, Any]

PHASES: Final = {
    "unknown": "window unknown",
    "below_handoff": "below the handoff line",
    "handoff_band": "handoff band",
    "compaction_due": "compaction due",
}
_PATTERN: Final = 50
"""Characters shown of a pattern."""
WORTH_TELLING: Final = 1_500
"""Tokens by which occupancy must change before the meter is written again."""


class JsonLines:
    """Tells notifications as a client would get them, one JSON object a line."""

    def __init__(self, out: Out) -> None:
        self._out = out

    def notice(self, method: str, params: Params) -> None:
        self._out.write(json.dumps({"method": method, "params": params}) + "\n")

    def result(self, method: str, result: Params) -> None:
        self._out.write(json.dumps({"method": method, "result": result}) + "\n")


class Words:
    """Tells notifications in words: the answer's text on `out`; tools, the meter and compactions on `about`."""

    def __init__(self, out: Out, about: Out) -> None:
        self._out, self._about = out, about
        self._streamed: tuple[str, int] = ("", 0)
        self._open = False
        """Whether the last line of the answer has no end yet."""
        self._calls: dict[str, Params] = {}
        self._occupancy: Params | None = None
        self._told: Params | None = None

    def notice(self, method: str, params: Params) -> None:
        match method:
            case _ if method == SESSION_UPDATE:
                self._update(params["update"])
            case _ if method == OCCUPANCY:
                self._occupied(params)
            case _ if method == COMPACTION:
                self._compaction(params)
            case _:
                pass

    def result(self, method: str, result: Params) -> None:
        """The end of a turn."""
        self._end_line()
        if self._occupancy is not None and self._occupancy is not self._told:
            self._about.line(meter(self._occupancy))
        timing = result["timing"]
        steps, seconds = timing["steps"], timing["wallMs"] / 1000
        took = f"{steps} {'step' if steps == 1 else 'steps'}, {seconds:.1f} s"
        self._about.line(f"turn {result['stop']} after {took}{bill(self._occupancy or {})}")

    def _update(self, update: Params) -> None:
        match update["kind"]:
            case "delta" if update["of"] == "text":
                self._text(update["messageId"], update["offset"], update["text"])
            case "answer":
                self._text(update["messageId"], 0, update["text"])
                self._end_line()
                self._calls |= {call["callId"]: call for call in update["calls"]}
            case "toolResult":
                for result in update["results"]:
                    self._tool(result)
            case "retrying":
                wait, error = update["waitMs"] / 1000, update["error"]["message"]
                self._aside(f"retrying    {update['attempt']} of {update['most']} in {wait:.1f} s: {error}")
            case _:
                pass

    def _text(self, message: str, offset: int, text: str) -> None:
        """What of it was not written yet."""
        known = self._streamed[1] if self._streamed[0] == message else 0
        new = text[max(0, known - offset) :]
        self._streamed = (message, max(known, offset + len(text)))
        if new:
            self._out.write(new)
            self._open = not new.endswith("\n")

    def _end_line(self) -> None:
        if self._open:
            self._out.write("\n")
            self._open = False

    def _aside(self, text: str) -> None:
        self._end_line()
        self._about.line(text)

    def _tool(self, result: Params) -> None:
        call = self._calls.pop(result["callId"], None)
        if call is None:
            return
        kept = ", shortened for the model" if result["full"] else ""
        outcome = f"FAILED: {result['text'][:80]}" if result["isError"] else f"{result['textBytes']:,} bytes{kept}"
        self._aside(f"{call['name']:<11} {target(call['arguments'])}  {outcome}")

    def _occupied(self, params: Params) -> None:
        told, self._occupancy = self._told, params
        news = told is None or told["phase"] != params["phase"] or abs(told["used"] - params["used"]) > WORTH_TELLING
        if news and not self._open:
            self._told = params
            self._about.line(meter(params))

    def _compaction(self, params: Params) -> None:
        match params["status"]:
            case "started":
                self._aside(f"compaction  {params['reason']}")
            case "committed":
                report = params["report"]
                sizes = f"{report['before']:,} to {report['after']:,} tokens"
                self._aside(f"compaction  {sizes} ({report['strategy']}), {report['keptMessages']} messages kept")
            case "failed" | "skipped":
                self._aside(f"compaction  {params['status']}: {params['error']['message']}")
            case _:
                pass


def meter(now: Params) -> str:
    """The number as words: an estimate has a tilde before it."""
    about = "" if now["source"] == "provider" else "~"
    phase = PHASES.get(now["phase"], now["phase"])
    if not now["inputBudget"]:
        return f"context     {about}{now['used']:,} tokens, {phase}"
    share = now["used"] * 100 // now["inputBudget"]
    return f"context     {about}{now['used']:,} / {now['inputBudget']:,} ({share} %) {phase}"


def bill(now: Params) -> str:
    """What the session cost so far, as the end of a line; nothing where no price is known."""
    if now.get("cost") is None:
        return ""
    more = f" and {now['unpriced']} calls of unknown cost" if now["unpriced"] else ""
    return f", {in_dollars(now['cost'])}{more} so far"


def target(arguments: str) -> str:
    """What a call is about, from its arguments, which are whatever the model wrote."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return _short(arguments)
    match given:
        case {"path": str(path), "first_line": int(first), "lines": int(lines)}:
            return f"{path} {first}-{first + lines - 1}"
        case {"pattern": str(pattern)}:
            return _short(pattern)
        case {"path": str(path)}:
            return "all files" if path == "." else path
        case _:
            return _short(arguments)


def _short(text: str) -> str:
    return text if len(text) <= _PATTERN else text[: _PATTERN - 3] + "..."
