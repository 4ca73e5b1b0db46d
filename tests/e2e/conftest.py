from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from pytest_lsp import ClientServerConfig
from tests.e2e.editor import Editor, Serving

ANSWER = "A line of the answer.\n".replace(" ", "-") * 300
"""About 2,000 tokens in a single delta."""


def make_workspace(folder: Path) -> Path:
    """A small folder to work on, beside where the home will be."""
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "a.py").write_text("print('a')\n" * 40, encoding="utf-8")
    return workspace


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where sessions lie; the workspace is beside it."""
    make_workspace(tmp_path)
    return tmp_path / "home"


class Shared(ClientServerConfig):
    """A server that many tests share: its home is made when it starts. One line answers every request."""

    def __init__(self, line: dict[str, Any]) -> None:
        super().__init__(server_command=[])
        self._line = line

    async def start(self, devtools: str | None = None) -> Any:
        folder = Path(tempfile.mkdtemp(prefix="ullage-e2e-"))
        make_workspace(folder)
        return await Serving(folder / "home", [self._line | {"times": 500}]).start(devtools)


async def _lend(client: Editor) -> Any:
    await client.begin()
    yield
    try:
        await client.search_everything()
        client.check_bars()
        await client.end()
    finally:
        shutil.rmtree(client.home.parent)


@pytest_lsp.fixture(config=Shared({"say": ANSWER}), scope="session")
async def talking(client: Editor) -> Any:
    """An editor whose model always answers."""
    async for each in _lend(client):
        yield each


@pytest_lsp.fixture(config=Shared({"stall": "thinking about"}), scope="session")
async def stalling(client: Editor) -> Any:
    """An editor whose model begins an answer and never ends it."""
    async for each in _lend(client):
        yield each


@pytest.fixture(autouse=True)
def canary() -> Iterator[None]:
    """No test ends with a handoff's id or wording in any frame that a server sent during it."""
    yield
    spoke = list(Editor.living)
    Editor.living[:] = [each for each in spoke if each.process.returncode is None]
    for editor in spoke:
        editor.search_new()
