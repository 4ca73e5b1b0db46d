"""J9: whatever is cancelled whenever, each request is answered exactly once, and the log says how its turn ended."""

from __future__ import annotations

import pytest
from tests.e2e.editor import Editor, Params

from ullage.wire import rpc

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROMPT = "ullage/session/prompt"


async def check_answered_once(editor: Editor, request_id: str, code: int | None) -> Params:
    """One answer, with this error or a result; another request later has seen to it that no second one follows."""
    await editor.answer(request_id)
    await editor.request("ullage/session/list")
    [answer] = editor.answers(request_id)
    assert (answer["error"]["code"] if "error" in answer else None) == code
    return answer


async def streaming(editor: Editor) -> tuple[str, str]:
    """A session whose turn t1 is being answered; its id and the request."""
    one = await editor.new()
    request_id = editor.start(PROMPT, {"sessionId": one, "text": "go", "turnId": "t1"})
    await editor.update(one, "delta")
    return one, request_id


def ends(editor: Editor, session_id: str) -> list[tuple[str, str]]:
    told = [each["update"] for each in editor.updates(session_id) if each["update"]["kind"] == "turnEnded"]
    return [(each["turnId"], each["stop"]) for each in told]


@pytest.mark.parametrize("times", [1, 2])
async def test_during_the_models_answer(stalling: Editor, times: int) -> None:
    one, request_id = await streaming(stalling)
    for _ in range(times):
        stalling.cancel(request_id)
    await check_answered_once(stalling, request_id, rpc.CANCELLED)
    assert ends(stalling, one) == [("t1", "cancelled")]


async def test_by_method_and_by_notification_at_once(stalling: Editor) -> None:
    """Both words arrive together: one end, one answer."""
    one, request_id = await streaming(stalling)
    cancelling = stalling.start("ullage/session/cancel", {"sessionId": one, "turnId": "t1"})
    stalling.cancel(request_id)
    await check_answered_once(stalling, request_id, rpc.CANCELLED)
    await check_answered_once(stalling, cancelling, None)
    assert ends(stalling, one) == [("t1", "cancelled")]


async def test_while_it_waits(stalling: Editor) -> None:
    """The waiting prompt goes; the running turn does not notice."""
    one, running = await streaming(stalling)
    request_id = stalling.start(PROMPT, {"sessionId": one, "text": "then", "turnId": "t2"})
    await stalling.update(one, "prompt", turnId="t2")
    stalling.cancel(request_id)
    await check_answered_once(stalling, request_id, rpc.CANCELLED)
    await stalling.update(one, "promptRemoved", turnId="t2")
    assert ends(stalling, one) == [] and stalling.answers(running) == []


async def test_in_the_same_breath_as_the_request(stalling: Editor) -> None:
    """Before it started: it never does, or is cancelled."""
    one = await stalling.new()
    request_id = stalling.start(PROMPT, {"sessionId": one, "text": "go", "turnId": "t1"})
    stalling.cancel(request_id)
    await check_answered_once(stalling, request_id, rpc.CANCELLED)
    assert ends(stalling, one) in ([], [("t1", "cancelled")])


async def test_before_the_request(talking: Editor) -> None:
    """A cancel is no promise about later requests."""
    one = await talking.new()
    talking.cancel("next")
    talking.protocol.send_request(PROMPT, {"sessionId": one, "text": "go", "turnId": "t1"}, msg_id="next")
    answer = await check_answered_once(talking, "next", None)
    assert answer["result"]["stop"] == "done" and ends(talking, one) == [("t1", "done")]


@pytest.mark.parametrize("times", [1, 2])
async def test_after_the_end(talking: Editor, times: int) -> None:
    one = await talking.new()
    request_id = talking.start(PROMPT, {"sessionId": one, "text": "go", "turnId": "t1"})
    await talking.answer(request_id)
    for _ in range(times):
        talking.cancel(request_id)
    assert await talking.ask("session/cancel", one, turnId="t1") == {}
    await check_answered_once(talking, request_id, None)
    assert ends(talking, one) == [("t1", "done")]


async def test_what_nobody_asked(stalling: Editor) -> None:
    """An unknown id ends nothing and is not answered."""
    one, running = await streaming(stalling)
    stalling.cancel("nobody asked this")
    await stalling.request("ullage/session/list")
    assert stalling.answers("nobody asked this") == [] and stalling.answers(running) == []
    assert ends(stalling, one) == []


async def test_during_a_compaction(talking: Editor) -> None:
    """It is cancelled, or was done already; either way once, as told, and the session goes on."""
    one = await talking.new()
    for number in range(3):
        await talking.ask("session/prompt", one, text=f"go {number}")
    request_id = talking.start("ullage/session/compact", {"sessionId": one})
    talking.cancel(request_id)
    answer = await talking.answer(request_id)
    cancelled = "error" in answer
    await check_answered_once(talking, request_id, rpc.CANCELLED if cancelled else None)
    assert ("compacted" in talking.kinds(one)) is not cancelled
    assert not talking.compactions(one) or talking.compactions(one)[-1] == ("cancelled" if cancelled else "committed")
    assert (await talking.ask("session/prompt", one, text="go on"))["stop"] == "done"
