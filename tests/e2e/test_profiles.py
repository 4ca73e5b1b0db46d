"""initialize, as every editor does it whose capabilities pytest-lsp knows.

The newest of each begins, breaks and goes on with the session of `test_story.py`; here each has a server of its own.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from tests.e2e.editor import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEOVIMS = tuple(f"neovim@v{version}" for version in ("0.6.1", "0.7.0", "0.8.0", "0.9.1", "0.10.0", "0.11.0"))
PROFILES = ("visual-studio-code@v1.65.2", "emacs@v29.1", *NEOVIMS)


async def test_the_profiles_are_all_that_there_are() -> None:
    files = {each.name for each in resources.files("pytest_lsp.clients").iterdir() if each.name.endswith(".json")}
    assert files == {f"{name.replace('-', '_').replace('@', '_')}.json" for name in PROFILES}


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
async def test_every_editor_gets_a_session_and_bars_where_it_has_them(home: Path, profile: str) -> None:
    """`serving` checks abilities and bars; pytest-lsp checks what we send against the capabilities."""
    async with serving(home, [{"say": "-".join(["word"] * 2_000)}] * 3, profile=profile) as editor:
        one = await editor.new()
        for number in range(3):
            await editor.ask("session/prompt", one, text=f"go {number}")
        assert (await editor.ask("session/compact", one))["outcome"] == "committed"
