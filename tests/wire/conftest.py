from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ullage.testing.client import Client, make_client

ECHO = [sys.executable, str(Path(__file__).parent / "echo_server.py")]


@pytest.fixture
async def raw() -> AsyncIterator[Client]:
    """A client of the echo server that has sent nothing yet."""
    async with make_client(ECHO) as client:
        yield client


@pytest.fixture
async def client(raw: Client) -> Client:
    """A client of the echo server, after initialize."""
    await raw.initialize()
    return raw


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Client]:
    """One initialized client for a whole module: a process takes more than a second to start."""
    async with make_client(ECHO) as client:
        await client.initialize()
        yield client
