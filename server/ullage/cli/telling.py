"""How commands tell what a session does: as a client would hear it, or the answer on one stream and what is about it on
another."""

from __future__ import annotations

import json
from typing import Any, Final

from ullage.cli.bills import bill
from ullage.cli.output import Out
from ullage.editors.methods import COMPACTION, OCCUPANCY, SESSION_UPDATE, WARNING

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
    """Tells notifications in words: the answer's text on `out`; tools, the meter and compactions on `about`.

    The model's thinking is told where there is somewhere to tell it; a meter that somebody else shows is not told.
    """

    def __init__(self, out: Out, about: Out, thoughts: Out | None = None, *, meter: bool = True) -> None:
        self._about, self._meter = about, meter
        self._outs = {"text": out} if thoughts is None else {"text": out, "reasoning": thoughts}
        self._streamed: dict[tuple[str, str], int] = {}
        """Characters written of the answer under way, by message and what they are of."""
        self._open: Out | None = None
        """Where the last line has no end yet."""
        self._calls: dict[str, tuple[Params, int]] = {}
        """Calls without a result, and when they were asked for."""
        self._paid = (0, 0)
        self.refused = ""
        """Why the last compaction that came to nothing did."""
        self._occupancy: Params | None = None
        self._told: Params | None = None

    def meter(self) -> str:
        """The number as it is now; empty before there is one."""
        return "" if self._occupancy is None else figures(self._occupancy)

    def under_way(self) -> str:
        """The call that is waited for; empty when there is none."""
        call = next(iter(self._calls.values()), None)
        return "" if call is None else f"{call[0]['name']} {target(call[0]['arguments'])}"

    def notice(self, method: str, params: Params) -> None:
        match method:
            case _ if method == SESSION_UPDATE:
                self._update(params["update"], params.get("at") or 0)
            case _ if method == OCCUPANCY:
                self._occupied(params)
            case _ if method == COMPACTION:
                self._compaction(params)
            case _ if method == WARNING:
                self.aside(f"warning     {params['warning']['message']}")
            case _:
                pass

    def result(self, method: str, result: Params) -> None:
        """The end of a turn."""
        self.end_line()
        if self._meter and self._occupancy is not None and self._occupancy is not self._told:
            self._about.line(meter(self._occupancy))
        timing, (prompt, completion) = result["timing"], self._paid
        steps, seconds = timing["steps"], timing["wallMs"] / 1000
        took = f"{steps} {'step' if steps == 1 else 'steps'}, {seconds:.1f} s"
        tokens = f"tokens: {prompt:,} in, {completion:,} out"
        self._about.line(f"turn {result['stop']} after {took}, {tokens}{bill(self._occupancy or {})}")

    def _update(self, update: Params, at: int) -> None:
        match update["kind"]:
            case "turnStarted":
                self._paid = (0, 0)
            case "delta" if update["of"] in self._outs:
                self._text(update["of"], update["messageId"], update["offset"], update["text"])
            case "answer":
                self._answer(update, at)
            case "toolResult":
                for result in update["results"]:
                    self._tool(result, at)
            case "turnEnded":
                self._calls.clear()
            case "retrying":
                wait, error = update["waitMs"] / 1000, update["error"]["message"]
                self.aside(f"retrying    {update['attempt']} of {update['most']} in {wait:.1f} s: {error}")
            case _:
                pass

    def _answer(self, update: Params, at: int) -> None:
        message, usage = update["messageId"], update.get("usage", {})
        if not any(known == message for known, _ in self._streamed) and "reasoning" in self._outs:
            self._text("reasoning", message, 0, update["reasoning"])
        self._text("text", message, 0, update["text"])
        self.end_line()
        self._calls |= {call["callId"]: (call, at) for call in update["calls"]}
        prompt, completion = self._paid
        self._paid = (prompt + (usage.get("prompt") or 0), completion + (usage.get("completion") or 0))

    def _text(self, of: str, message: str, offset: int, text: str) -> None:
        """What of it was not written yet."""
        self._streamed = {key: end for key, end in self._streamed.items() if key[0] == message}
        known = self._streamed.get((message, of), 0)
        self._streamed[message, of] = max(known, offset + len(text))
        new, out = text[max(0, known - offset) :], self._outs[of]
        if new:
            if self._open is not out:
                self.end_line()
            out.write(new)
            self._open = None if new.endswith("\n") else out

    def end_line(self) -> None:
        """End the line that is being streamed, if there is one."""
        if self._open is not None:
            self._open.write("\n")
            self._open = None

    def aside(self, text: str) -> None:
        """A line about the session, on a line of its own whatever is being streamed."""
        self.end_line()
        self._about.line(text)

    def _tool(self, result: Params, at: int) -> None:
        call, asked = self._calls.pop(result["callId"], (None, 0))
        if call is None:
            return
        kept = ", shortened for the model" if result["full"] else ""
        outcome = f"FAILED: {result['text'][:80]}" if result["isError"] else f"{result['textBytes']:,} bytes{kept}"
        self.aside(f"{call['name']:<11} {target(call['arguments'])}  {outcome}, {(at - asked) / 1000:.1f} s")

    def _occupied(self, params: Params) -> None:
        before, told, self._occupancy = self._occupancy, self._told, params
        if before is not None and params["hidden"] and not before["hidden"]:
            self.aside(f"handoff     recorded: a reminder of {params['hidden']:,} tokens that only the model sees")
        news = told is None or told["phase"] != params["phase"] or abs(told["used"] - params["used"]) > WORTH_TELLING
        if news and self._meter and self._open is None:
            self._told = params
            self._about.line(meter(params))

    def _compaction(self, params: Params) -> None:
        match params["status"]:
            case "started":
                self.aside(f"compaction  {params['reason']}")
            case "committed":
                report = params["report"]
                sizes = f"{report['before']:,} to {report['after']:,} tokens"
                self.aside(f"compaction  {sizes} ({report['strategy']}), {report['keptMessages']} messages kept")
            case "cancelled":
                self.aside("compaction  cancelled")
            case "failed" | "skipped":
                self.refused = params["error"]["message"]
                self.aside(f"compaction  {params['status']}: {self.refused} {params['error']['hint']}".rstrip())
            case _:
                pass


def meter(now: Params) -> str:
    """The number as a line."""
    return f"context     {figures(now)}"


def figures(now: Params) -> str:
    """The number as words: an estimate has a tilde before it."""
    about = "" if now["source"] == "provider" else "~"
    phase = PHASES.get(now["phase"], now["phase"])
    if not now["inputBudget"]:
        return f"{about}{now['used']:,} tokens, {phase}"
    share = now["used"] * 100 // now["inputBudget"]
    return f"{about}{now['used']:,} / {now['inputBudget']:,} ({share} %) {phase}"


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


def inspection(found: Params) -> list[str]:
    """What fills the window, in lines; what is hidden is a figure."""
    now, shown = found["occupancy"], 5
    window = f"{now['window']:,} ({now['windowSource']})" if now["window"] else "unknown"
    lines = [
        meter(now),
        f"            window {window}, {now['reserve']:,} kept free for the answer; handoff at "
        f"{now['handoffLine']:,}, compaction at {now['compactionLine']:,}; {now['estimated']:,} estimated",
    ]
    for title, rows in (("filled by", found["categories"]), ("biggest", found["biggest"][:shown])):
        for number, each in enumerate(rows):
            what = each.get("name") or f"{each['category']}, event {each['seq']}"
            lines.append(f"{'' if number else title:<11} {each['tokens']:>9,}  {what}")
    for each in found["checkpoints"][-shown:]:
        report = each["report"]
        lines.append(f"compacted   {report['before']:,} to {report['after']:,} tokens ({report['strategy']})")
    for title, key in (("turns", "turnTotals"), ("summaries", "summaryTotals")):
        paid = found[key]
        lines.append(f"paid        {title}: {paid['prompt']:,} in, {paid['completion']:,} out in {paid['calls']} calls")
    return lines
