"""How the demo is told: a line for each thing that a client is told, and the figures that are summed up at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from ullage.cli.telling import PHASES, WORTH_TELLING, target

Params = dict[str, Any]

_BAR = 30
"""Columns of the meter."""

_REPORT_LINES = 12
"""Lines of a report that are shown."""


class Story:
    """Takes notifications as they come and writes lines."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._bold, self._dim, self._plain = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if out.isatty() else ("", "", "")
        self._chapter = 0
        self._occupancy: Params | None = None
        self._told: Params | None = None
        self._hidden: Counter[str] = Counter()
        self._calls: dict[str, Params] = {}
        self.requests = self.handoffs = self.reads = self.largest = 0
        self.strategies: Counter[str] = Counter()
        self.sizes: list[tuple[int, int]] = []

    @property
    def compactions(self) -> int:
        return len(self.sizes)

    # --- frame ---

    def opening(self, folder: Path, window: int) -> None:
        self._write(f"{self._bold}Ullage: a session server that keeps its window{self._plain}")
        self.line(f"workspace {folder}, reading only")
        self.line(f"model explorer (offline, rule-based), window {window:,} tokens")
        self.line(
            "The bar is the input budget: the window less what is kept free for the answer. Its two marks are the"
        )
        self.line("handoff line and the compaction line; ~ marks an estimate, else the figure is the model's own.")

    def chapter(self, title: str) -> None:
        self.flush()
        self._chapter += 1
        self._write(f"\n{self._bold}{self._chapter}. {title}{self._plain}")

    def line(self, text: str) -> None:
        self._write(f"   {text}")

    def table(self, rows: Mapping[str, str]) -> None:
        self.chapter("What it came to")
        width = max(map(len, rows))
        for name, value in rows.items():
            self.line(f"{name:<{width}}  {value}")

    def _write(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    # --- what happened ---

    def prompt(self, text: str) -> None:
        self._write(f"   {self._bold}> {text}{self._plain}")

    def outcome(self, outcome: Params) -> None:
        self.flush()
        timing = outcome["timing"]
        self.line(f"{self._dim}turn {outcome['stop']} after {timing['steps']} steps{self._plain}")

    def notice(self, method: str, params: Params) -> None:
        match method:
            case "ullage/session/update":
                self._update(params["update"])
            case "ullage/context/occupancy":
                self._occupied(params)
            case "ullage/context/compaction":
                self._compaction(params)
            case _:
                pass

    def _update(self, update: Params) -> None:
        match update["kind"]:
            case "answer":
                self.requests += 1
                self.largest = max(self.largest, update["usage"]["prompt"] or 0)
                self._calls |= {call["callId"]: call for call in update["calls"]}
                if not update["calls"]:
                    self._report(update["text"])
            case "toolResult":
                for result in update["results"]:
                    self._tool(result)
            case _:
                pass

    def _tool(self, result: Params) -> None:
        call = self._calls.pop(result["callId"], None)
        if call is None:
            return
        self.reads += call["name"] == "read"
        kept = ", shortened for the model" if result["full"] else ""
        outcome = f"FAILED: {result['text'][:80]}" if result["isError"] else f"{result['textBytes']:,} bytes{kept}"
        self.line(f"{call['name']:<11} {target(call['arguments'])}{self._dim}  {outcome}{self._plain}")

    def _report(self, text: str) -> None:
        """The first lines of a report and its last one; all of it is in the session."""
        self.flush()
        lines = [line for line in text.splitlines() if line.strip()]
        left_out = len(lines) - _REPORT_LINES
        shown = lines if left_out <= 0 else [*lines[: _REPORT_LINES - 1], f"... {left_out} more lines ...", lines[-1]]
        for line in shown:
            self.line(f"| {line[:110]}")

    # --- the window ---

    def _occupied(self, params: Params) -> None:
        session = params["sessionId"]
        if params["hidden"] and not self._hidden[session]:
            self.handoffs += 1
            self.line(
                f"{self._bold}handoff     recorded: a reminder of {params['hidden']} tokens that the model sees and "
                f"nobody else{self._plain}"
            )
        self._hidden[session] = params["hidden"]
        told, self._occupancy = self._told, params
        if told is None or told["phase"] != params["phase"] or abs(told["used"] - params["used"]) > WORTH_TELLING:
            self.flush()

    def flush(self) -> None:
        """Write the meter, where it changed since it was written."""
        if self._occupancy is not None and self._occupancy is not self._told:
            self._told = self._occupancy
            self.line(self._meter(self._occupancy))

    def _meter(self, now: Params) -> str:
        budget = now["inputBudget"] or 1
        marks = {round(now[line] * _BAR / budget) for line in ("handoffLine", "compactionLine")}
        filled = min(_BAR, round(now["used"] * _BAR / budget))
        bar = "".join("|" if place in marks else "#" if place < filled else "." for place in range(_BAR))
        about = "~" if now["source"] != "provider" else " "
        share = f"{now['used'] * 100 // budget} %"
        return f"[{bar}] {about}{now['used']:>6,} / {budget:,} ({share}) {PHASES[now['phase']]}"

    def _compaction(self, params: Params) -> None:
        match params["status"]:
            case "started":
                why = "the compaction line is reached" if params["reason"] == "threshold" else params["reason"]
                self.line(f"{self._bold}compaction  {why}{self._plain}")
            case "committed":
                self._committed(params["report"])
            case "failed" | "skipped":
                self.line(f"compaction  {params['status']}: {params['error']['message']}")
            case _:
                pass

    def _committed(self, report: Params) -> None:
        self.strategies[report["strategy"]] += 1
        self.sizes.append((report["before"], report["after"]))
        files = ", ".join(report["restoredFiles"]) or "none"
        self.line(
            f"            {report['before']:,} to {report['after']:,} tokens ({report['strategy']}), "
            f"{report['keptMessages']} messages kept"
        )
        self.line(f"            files restored: {files}")
