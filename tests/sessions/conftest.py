from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.sessions.stage import Stage

from ullage.testing.disk import FakeDisk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small workspace."""
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    (folder / "notes.txt").write_text("first line\nsecond line\n")
    (folder / "big.txt").write_text("".join(f"line {number:05d} of a long file\n" for number in range(1_500)))
    (folder / ".env").write_text("TOKEN=hunter2\n")
    return folder


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Real files."""
    made = Stage(tmp_path / "home")
    yield made
    await made.leave()


@pytest.fixture
async def faulty(tmp_path: Path) -> AsyncIterator[Stage]:
    """A disk that can fail."""
    made = Stage(Path("/home"), FakeDisk(Path("/")))
    yield made
    await made.leave()


@pytest.fixture
def stage_sync(tmp_path: Path) -> Stage:
    """A stage on which nothing is played, and nothing held."""
    return Stage(tmp_path / "home")
