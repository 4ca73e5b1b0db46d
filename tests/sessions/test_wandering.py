"""Live sessions by chance: whatever a person does, in whatever order, the promises hold after each act."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sessions.stage import Stage
from tests.sessions.wander import wander


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_a_person_does(stage: Stage, root: Path, seed: int) -> None:
    """What is looked at after each act stands in `Wander.check`: requests, the one number, the law, every view."""
    await wander(stage, root, seed, 30)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 250))
async def test_a_hundred_and_fifty_more(stage: Stage, root: Path, seed: int) -> None:
    await wander(stage, root, seed, 45)
