from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools.hands import Hands
from tests.workspace.hostile import OPENERS, build

from ullage.workspace.root import WorkspaceRoot


@pytest.fixture(params=sorted(OPENERS))
def hands(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hands]:
    """The tools of a small workspace, once with each way of opening."""
    ws = build(tmp_path.resolve())
    with WorkspaceRoot.open(str(ws), opener=OPENERS[request.param]) as root:
        yield Hands(ws, root)
