"""What a session cost and where it stops, as a client sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.editor import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

BILLED = {"say": "Done.", "usage": {"prompt": 10_000, "completion": 100, "total": 10_100}}


async def test_the_cost_is_shown_and_a_hard_cap_stops_before_the_call(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reserve is 8,192 tokens: the second call could come to more than 28,000 with the 10,100 of the first."""
    monkeypatch.setenv("ULLAGE_PRICES", "scripted=3/15")
    monkeypatch.setenv("ULLAGE_CAP_SESSION_TOKENS", "28000")
    monkeypatch.setenv("ULLAGE_CAP_DAY_DOLLARS", "0.01")
    async with serving(home, [BILLED], window=50_000) as editor:
        one = await editor.new()
        first = await editor.ask("session/prompt", one, text="go")
        assert (first["stop"], first["totals"]["cost"], first["totals"]["priced"]) == ("done", 31_500, 1)
        newest = editor.told("ullage/context/occupancy", one)[-1]
        assert (newest["cost"], newest["unpriced"], newest["totals"]["cost"]) == (31_500, 0, 31_500)
        second = await editor.ask("session/prompt", one, text="go on")
        assert (second["stop"], second["error"]["code"]) == ("failed", "cap_reached")
        assert second["error"]["data"]["cap"] == "cap_session_tokens"
        inspected = await editor.ask("context/inspect", one)
        assert (inspected["turnTotals"]["cost"], inspected["summaryTotals"]["cost"]) == (31_500, None)
        [warning] = editor.told("ullage/session/warning", one)
        assert warning["warning"]["code"] == "day_cap"
    monkeypatch.delenv("ULLAGE_CAP_SESSION_TOKENS")
    async with serving(home, [BILLED], window=50_000) as editor:
        opened = await editor.ask("session/open", one)
        size = editor.told("ullage/context/occupancy", one)[-1]["used"]
        assert opened["resume"]["tokens"] == size and opened["resume"]["idleMs"] >= 0
        assert (opened["resume"]["cost"], opened["resume"]["largeAndIdle"]) == (size * 3, False)
        assert editor.told("ullage/context/occupancy", one)[-1]["cost"] == 31_500
        assert (await editor.ask("session/prompt", one, text="go on"))["stop"] == "done"
