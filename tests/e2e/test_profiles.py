"""initialize, as the editors do it whose capabilities pytest-lsp knows."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from pytest_lsp import client_capabilities
from tests.e2e.editor import VS_CODE, serving

from ullage.editors.methods import METHODS, NOTIFICATIONS

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROFILES = (f"{VS_CODE}@v1.65.2", "emacs@v29.1", "neovim@v0.11.0")
OLD_NEOVIMS = tuple(f"neovim@v{version}" for version in ("0.6.1", "0.7.0", "0.8.0", "0.9.1", "0.10.0"))


async def test_the_profiles_are_all_that_there_are() -> None:
    files = {each.name for each in resources.files("pytest_lsp.clients").iterdir() if each.name.endswith(".json")}
    assert files == {f"{name.replace('-', '_').replace('@', '_')}.json" for name in (*PROFILES, *OLD_NEOVIMS)}


@pytest.mark.parametrize("profile", [*PROFILES, *(pytest.param(each, marks=pytest.mark.slow) for each in OLD_NEOVIMS)])
async def test_every_editor_gets_a_session_and_bars_where_it_has_them(home: Path, profile: str) -> None:
    """Whatever its capabilities are; pytest-lsp checks what we send against them."""
    async with serving(home, [{"say": "-".join(["word"] * 2_000)}] * 3, profile=profile) as editor:
        result = editor.initialized_with
        assert result is not None and result.server_info is not None and result.server_info.name == "ullage"
        assert result.capabilities.experimental["ullage"] == {
            "version": 1,
            "methods": [method.name for method in METHODS],
            "notifications": [each.name for each in NOTIFICATIONS],
            "images": False,
            "updateBytes": result.capabilities.experimental["ullage"]["updateBytes"],
        }
        one = await editor.new()
        for number in range(3):
            await editor.ask("session/prompt", one, text=f"go {number}")
        assert (await editor.ask("session/compact", one))["outcome"] == "committed"
        window = client_capabilities(profile).window
        has_bars = bool(window and window.work_done_progress)
        begun = [each for each in editor.messages if each.get("method") == "window/workDoneProgress/create"]
        assert bool(begun) is has_bars
