from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workspace.hostile import OPENERS, build

from ullage.workspace.root import WorkspaceRoot


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace folder with an outside around it."""
    return build(tmp_path.resolve())


@pytest.fixture(params=sorted(OPENERS))
def door(request: pytest.FixtureRequest, ws: Path) -> Iterator[WorkspaceRoot]:
    """The workspace's door, once with each way of opening."""
    with WorkspaceRoot.open(str(ws), opener=OPENERS[request.param]) as root:
        yield root
