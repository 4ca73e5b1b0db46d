"""The protocol over a real process: every request is answered exactly once, and payloads stay what they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ullage.testing.client import NEVER, Client, RpcError
from ullage.wire import rpc
from ullage.wire.framing import frame

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRAPS: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": 1, "method": "exit"},
    {"a": {"jsonrpc": "2.0", "method": "x"}},
    {"a": [{"b": {"jsonrpc": "2.0", "id": 9, "result": {}}}]},
    {"a": {"b": {"c": {"d": {"jsonrpc": "1.0"}}}}},
    {"class": 1, "a-b": 2, "_x": 3, "_meta": {}, "type_name": "T", "__proto__": {"__class__": None}, "": 0},
    {"result": {"error": {"code": -1}}, "params": {"id": None}},
    {"big": 2**70, "small": 1e-7, "float": 1.0, "text": "\ud800 é 🍷\u2028", "empty": [[], {}]},
    {},
]


def same(one: Any, other: Any) -> bool:
    """Byte-equal, order of keys included."""
    return json.dumps(one) == json.dumps(other)


@pytest.mark.parametrize("payload", TRAPS, ids=range(len(TRAPS)))
async def test_payloads_that_look_like_protocol_stay_equal(shared: Client, payload: dict[str, Any]) -> None:
    """J6: in requests, results, notifications, in requests to the client and in its results."""
    seen: list[Any] = []
    shared.handlers["ullage/ask"] = lambda params: seen.append(params) or params
    assert same(await shared.request("ullage/echo", payload), payload)
    await shared.notification("ullage/echoed", lambda params: same(params, payload))
    assert same(await shared.request("ullage/bounce", payload), payload)
    assert same(seen or [{}], [payload])
    arguments = [payload, [payload]]
    assert same(
        await shared.request("workspace/executeCommand", {"command": "ullage.echo", "arguments": arguments}), arguments
    )


async def check_error(shared: Client, method: str, params: Any, code: int) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await shared.request(method, params)
    assert caught.value.code == code
    return caught.value


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("ullage/nothing", {}, rpc.METHOD_NOT_FOUND),
        ("textDocument/hover", {}, rpc.METHOD_NOT_FOUND),
        ("$/whatever", {}, rpc.METHOD_NOT_FOUND),
        ("ullage/echo", [1], rpc.INVALID_PARAMS),
        ("workspace/executeCommand", {"command": 3, "arguments": 4}, rpc.INVALID_PARAMS),
        ("workspace/executeCommand", None, rpc.INVALID_PARAMS),
        ("workspace/executeCommand", [], rpc.INVALID_PARAMS),
        ("workspace/executeCommand", {"command": "unknown"}, rpc.INVALID_PARAMS),
        ("initialize", {"capabilities": {}}, rpc.INVALID_REQUEST),
    ],
)
async def test_requests_that_cannot_be_handled(shared: Client, method: str, params: Any, code: int) -> None:
    await check_error(shared, method, params, code)
    assert await shared.request("ullage/echo", {"still": "here"}) == {"still": "here"}


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("ours", rpc.OUR_ERROR, "No such session."),
        ("other", rpc.INTERNAL_ERROR, "its log says why"),
        ("exit", rpc.INTERNAL_ERROR, "its log says why"),
        ("params", rpc.INVALID_PARAMS, "do not fit"),
        ("nan", rpc.INTERNAL_ERROR, "cannot be written"),
        ("object", rpc.INTERNAL_ERROR, "cannot be written"),
    ],
)
async def test_failing_handlers_answer_with_a_plain_sentence(shared: Client, how: str, code: int, words: str) -> None:
    error = await check_error(shared, "ullage/fail", {"how": how}, code)
    assert words in error.message
    if code == rpc.INTERNAL_ERROR:
        await said(shared, "Traceback")
    everything = b"".join(shared.bodies)
    assert b"Traceback" not in everything and b"hunter2" not in everything and b"showMessage" not in everything


async def test_our_errors_carry_their_report(shared: Client) -> None:
    error = await check_error(shared, "ullage/fail", {"how": "ours"}, rpc.OUR_ERROR)
    assert error.data == {
        "code": "bad_input",
        "message": "No such session.",
        "hint": "List the sessions.",
        "data": {"session": "s1", "count": 2},
    }


async def test_models_are_dumped_by_alias(shared: Client) -> None:
    assert await shared.request("ullage/model") == {"someNumber": 7}
    assert await shared.request("ullage/nestedModel") == {"inner": [{"someNumber": 7}]}


# --- cancelling (J9) ----------------------------------------------------------------------------------------------


async def start_waiting(shared: Client, tag: str) -> Any:
    request_id = shared.start("ullage/wait", {"tag": tag}, request_id=tag)
    await said(shared, f"waiting {tag}.")
    return request_id


async def said(shared: Client, words: str) -> None:
    await shared.wait_for(lambda: words.encode() in shared.stderr)


async def check_cancelled(shared: Client, request_id: Any) -> None:
    """Answered with -32800, once; then everything else that runs is found to be well."""
    answer = await shared.answer(request_id)
    assert answer["error"]["code"] == rpc.CANCELLED
    assert await shared.request("ullage/echo", {"a": 1}) == {"a": 1}
    assert len(shared.answers_to(request_id)) == 1


def cancel(shared: Client, request_id: Any) -> None:
    shared.notify("$/cancelRequest", {"id": request_id})


async def test_cancel_of_a_running_request(shared: Client) -> None:
    request_id = await start_waiting(shared, "running")
    cancel(shared, request_id)
    await check_cancelled(shared, request_id)
    await said(shared, "cancelled running.")


async def test_cancel_of_a_running_command(shared: Client) -> None:
    request_id = shared.start("workspace/executeCommand", {"command": "ullage.wait"})
    await said(shared, "waiting command.")
    cancel(shared, request_id)
    await check_cancelled(shared, request_id)
    await said(shared, "cancelled command.")


async def test_cancel_before_the_start(shared: Client) -> None:
    """Both in one read: the task exists, its first step has not run."""
    request = b'{"jsonrpc":"2.0","id":"w","method":"ullage/wait","params":{"tag":"early"}}'
    note = b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"w"}}'
    shared.send_bytes(rpc_frames(request, note))
    await check_cancelled(shared, "w")
    assert b"waiting early." not in shared.stderr


async def test_cancel_twice_lets_the_clean_up_finish(shared: Client) -> None:
    request_id = shared.start("ullage/stubborn", {"hold": True})
    await said(shared, "stubborn.")
    cancel(shared, request_id)
    await said(shared, "cleaning.")
    cancel(shared, request_id)
    await shared.request("ullage/release")
    assert await shared.result(request_id) == {"stop": "cancelled"}
    assert len(shared.answers_to(request_id)) == 1


async def test_cancel_before_arrival_after_the_end_and_of_nothing(shared: Client) -> None:
    cancel(shared, 1000)
    request_id = shared.start("ullage/echo", {"a": 1}, request_id=1000)
    assert await shared.result(request_id) == {"a": 1}
    for nothing in (1000, "1000", 5, None, True, 1.0, [1], {}):
        cancel(shared, nothing)
    shared.notify("$/cancelRequest")
    shared.notify("$/cancelRequest", {})
    assert await shared.request("ullage/echo", {"b": 1}) == {"b": 1}
    assert len(shared.answers_to(1000)) == 1


async def test_cancel_takes_an_id_of_the_same_type_only(shared: Client) -> None:
    """`True` and `1.0` equal 1 as dictionary keys."""
    assert shared.answers_to(1)[0]["result"]  # 1 was initialize, and is used once more
    shared.start("ullage/wait", {"tag": "one"}, request_id=1)
    for other in ("1", 1.0, True):
        cancel(shared, other)
    await shared.request("ullage/echo", {})
    assert len(shared.answers_to(1)) == 1
    cancel(shared, 1)
    await shared.wait_for(lambda: len(shared.answers_to(1)) == 2)
    assert shared.answers_to(1)[1]["error"]["code"] == rpc.CANCELLED


async def test_cancel_reaches_the_client_that_is_asked(shared: Client) -> None:
    """A request of ours that waits for the client's answer is cancelled there too, and a late answer is ignored."""
    shared.handlers["ullage/ask"] = NEVER
    request_id = shared.start("ullage/bounce", {"a": 1})
    await shared.wait_for(lambda: bool(shared.unanswered))
    cancel(shared, request_id)
    asked = shared.unanswered.pop()
    await shared.notification("$/cancelRequest", lambda params: params["id"] == asked)
    shared.send({"jsonrpc": "2.0", "id": asked, "result": "late"})
    await check_cancelled(shared, request_id)


def rpc_frames(*bodies: bytes) -> bytes:
    return b"".join(map(frame, bodies))


# --- ids (J10) ----------------------------------------------------------------------------------------------------


async def test_a_second_request_with_a_running_id_is_refused(shared: Client) -> None:
    await start_waiting(shared, "d")
    shared.start("ullage/echo", {"a": 1}, request_id="d")
    assert (await shared.answer("d"))["error"]["code"] == rpc.INVALID_REQUEST
    cancel(shared, "d")
    await shared.wait_for(lambda: len(shared.answers_to("d")) == 2)
    assert shared.answers_to("d")[1]["error"]["code"] == rpc.CANCELLED
    assert await shared.result(shared.start("ullage/echo", {"a": 1}, request_id="e")) == {"a": 1}


async def test_forged_answers_touch_no_running_request(shared: Client) -> None:
    await start_waiting(shared, "f")
    for forged in ("f", "nothing", None, 3, 1.5, [1]):
        shared.send({"jsonrpc": "2.0", "id": forged, "result": {"forged": True}})
        shared.send({"jsonrpc": "2.0", "id": forged, "error": {"code": 1, "message": "forged"}})
    await shared.request("ullage/echo", {})
    assert shared.answers_to("f") == []
    cancel(shared, "f")
    await check_cancelled(shared, "f")


async def test_an_error_from_the_client_fails_one_request_only(shared: Client) -> None:
    shared.handlers.clear()
    request_id = shared.start("ullage/bounce", {"a": 1})
    error = await shared.answer(request_id)
    assert error["error"]["code"] == rpc.METHOD_NOT_FOUND
    assert await shared.request("ullage/echo", {}) == {}


# --- bodies and frames --------------------------------------------------------------------------------------------


async def test_bad_bodies_are_answered_and_the_server_goes_on(shared: Client) -> None:
    shared.send_body(b'{"jsonrpc":"2.0","id":70,"method":"ullage/echo","params":{"n":NaN}}')
    shared.send_body(b'{"jsonrpc":"2.0","id":71,"method":"ullage/echo","params":' + b"[" * 100_000)
    shared.send_body(b'{"jsonrpc":"2.0","id":72,"method":"ullage/echo","params":"' + b"x" * 2**20 + b'"}')
    shared.send_body(b'[{"jsonrpc":"2.0","id":73,"method":"ullage/echo"}]')
    shared.send_bytes(b"Content-Length: -5\r\n\r\n{}")
    codes = {
        70: rpc.PARSE_ERROR,
        71: rpc.PARSE_ERROR,
        72: rpc.INVALID_REQUEST,
        73: rpc.INVALID_REQUEST,
        None: rpc.PARSE_ERROR,
    }
    for request_id, code in codes.items():
        assert (await shared.answer(request_id))["error"]["code"] == code
    assert await shared.request("ullage/echo", {"a": 1}) == {"a": 1}


async def test_depth_below_the_parsers_limit_is_answered(shared: Client) -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    answer = await shared.answer(shared.start("ullage/echo", {"deep": deep}))
    assert "result" in answer or answer["error"]["code"] in (rpc.INTERNAL_ERROR, rpc.PARSE_ERROR)
