"""The protocol class on the client's end too, inside pytest-lsp's client, whose own class renames keys."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from lsprotocol import types
from pytest_lsp import LanguageClient
from pytest_lsp.protocol import LanguageClientProtocol

from ullage.editors.protocol import UllageClientProtocol

ECHO = [sys.executable, str(Path(__file__).parent / "echo_server.py")]

TRAP = {"a": [{"jsonrpc": "2.0", "method": "exit"}], "class": 1, "a-b": {"_x": None}, "type_name": "T"}


class BothProtocol(LanguageClientProtocol, UllageClientProtocol):
    """pytest-lsp's checks and waits, on our dispatch."""


async def test_pytest_lsps_client_keeps_payloads_with_our_class() -> None:
    client = LanguageClient(protocol_cls=BothProtocol)
    asked: list[Any] = []

    @client.feature("ullage/ask")
    async def ask(params: Any) -> Any:
        asked.append(params)
        return params

    await client.start_io(*ECHO)
    result = await client.initialize_session(types.InitializeParams(capabilities=types.ClientCapabilities()))
    assert isinstance(result, types.InitializeResult) and result.server_info and result.server_info.name == "echo"
    echoed = client.protocol.wait_for_notification_async("ullage/echoed")
    assert await client.protocol.send_request_async("ullage/echo", TRAP) == TRAP
    async with asyncio.timeout(60):
        assert await echoed == TRAP
    assert await client.protocol.send_request_async("ullage/bounce", TRAP) == TRAP
    assert asked == [TRAP]
    await client.shutdown_session()
