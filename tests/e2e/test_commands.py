"""Commands over stdio: told while they run, and nothing is left of them whoever goes (J17; rows 39, 40 and 62)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.editor import Editor, serving
from tests.workspace.running import lives, until

from ullage.editors.methods import PERMISSION
from ullage.wire import rpc

PROMPT = "ullage/session/prompt"
FOR_EVER = "while :; do sleep 60; done"
ENDLESS = f"(trap '' TERM; echo $BASHPID > child; {FOR_EVER}) & echo $BASHPID > pid; echo up; {FOR_EVER}"


def bash(command: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": "bash", "arguments": {"command": command, **arguments}}]}


@asynccontextmanager
async def asked(
    home: Path, *script: dict[str, Any], decision: str = "allow"
) -> AsyncIterator[tuple[Editor, list[Any]]]:
    """An editor whose person always decides so, and what they were asked."""
    questions: list[Any] = []
    async with serving(home, [*script, {"say": "Done."}]) as editor:

        @editor.feature(PERMISSION)
        def decide(params: Any) -> dict[str, str]:
            questions.append(params)
            return {"decision": decision, "reason": "not now"}

        yield editor, questions


async def pids(editor: Editor) -> list[int]:
    files = [editor.workspace / name for name in ("pid", "child")]
    await until(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files))
    return [int(file.read_text()) for file in files]


async def test_what_a_command_prints_is_told_live_and_in_the_result(home: Path) -> None:
    async with asked(home, bash("echo before; read x < gate; echo after; exit 3")) as (editor, questions):
        os.mkfifo(editor.workspace / "gate")
        one = await editor.new()
        request_id = editor.start(PROMPT, {"sessionId": one, "text": "go", "turnId": "t1"})
        delta = (await editor.update(one, "delta", of="output"))["update"]
        assert (delta["text"], delta["offset"], delta["messageId"]) == ("before\n", 0, "t1/1/a")
        assert not editor.answers(request_id)
        (editor.workspace / "gate").write_text("go\n")
        result = (await editor.update(one, "toolResult"))["update"]["results"][0]
        assert (await editor.answer(request_id))["result"]["stop"] == "done"
    assert result["text"] == "before\nafter\n[exit code 3]"
    assert (result["op"], result["exitCode"], result["callId"]) == ("run", 3, delta["callId"])
    assert len(questions) == 1


async def test_row_39_cancelling_leaves_nothing(home: Path) -> None:
    async with asked(home, bash(ENDLESS)) as (editor, _):
        one = await editor.new()
        request_id = editor.start(PROMPT, {"sessionId": one, "text": "go", "turnId": "t1"})
        await editor.update(one, "delta", of="output")
        running = await pids(editor)
        assert all(map(lives, running))
        editor.cancel(request_id)
        answer = await editor.answer(request_id)
        assert answer["error"]["code"] == rpc.CANCELLED
        assert not any(map(lives, running))
        assert (await editor.update(one, "turnEnded"))["update"]["stop"] == "cancelled"
        assert (await editor.ask("session/prompt", one, text="go on"))["stop"] == "done"


@pytest.mark.parametrize("how", ["closed", "killed"])
async def test_row_62_a_server_that_goes_takes_its_commands_along(home: Path, how: str) -> None:
    """A job in the background too; the session opens again, with the call closed and nothing run again."""
    async with asked(home, bash(ENDLESS, background=True), bash("read x < never")) as (editor, _):
        os.mkfifo(editor.workspace / "never")
        one = await editor.new()
        editor.start(PROMPT, {"sessionId": one, "text": "go", "turnId": "t1"})
        running = await pids(editor)
        await editor.update(one, "toolResult")
        if how == "killed":
            await editor.kill()
    await until(lambda: not any(map(lives, running)))
    async with asked(home) as (editor, questions):
        await editor.request("ullage/session/open", {"sessionId": one})
        assert (await editor.update(one, "turnEnded"))["update"]["stop"] in ("cancelled", "interrupted")
        assert questions == []


async def test_what_a_person_denies_does_not_run(home: Path) -> None:
    async with asked(home, bash("touch ran"), decision="deny") as (editor, questions):
        one = await editor.new()
        await editor.ask("session/prompt", one, text="go")
        result = (await editor.update(one, "toolResult"))["update"]["results"][0]
        assert result["isError"] and "not now" in result["text"]
        assert len(questions) == 1 and not (editor.workspace / "ran").exists()
