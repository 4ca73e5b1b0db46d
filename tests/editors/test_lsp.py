"""The server as a client knows it: a real process over stdio, a scripted model, every method."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.editors.conftest import Serve, begin

from ullage.editors.methods import METHODS
from ullage.testing.client import NEVER, Client, RpcError
from ullage.wire import rpc

UPDATE = "ullage/session/update"
BARS = {"capabilities": {"window": {"workDoneProgress": True}}}


def updates(client: Client, session_id: str) -> list[dict[str, Any]]:
    """Durable updates of a session, as they came."""
    told = [params for name, params in client.notifications if name == UPDATE]
    return [params for params in told if params["sessionId"] == session_id and params["seq"] is not None]


def kinds(client: Client, session_id: str) -> list[str]:
    return [params["update"]["kind"] for params in updates(client, session_id)]


def is_update(session_id: str, kind: str) -> Callable[[dict[str, Any]], bool]:
    return lambda params: params["sessionId"] == session_id and params["update"]["kind"] == kind


async def check_error(client: Client, method: str, params: dict[str, Any], code: int | str) -> RpcError:
    """A typed error (by its word) or a JSON-RPC one, with a sentence and nothing of a traceback."""
    with pytest.raises(RpcError) as caught:
        await client.request(method, params)
    error = caught.value
    assert code == (error.data["code"] if isinstance(code, str) else error.code)
    assert error.message and "Traceback" not in json.dumps(error.data)
    if isinstance(code, str):
        assert error.code == rpc.OUR_ERROR and error.data["message"]
    return error


async def test_every_method_before_initialize_is_refused(serve: Serve) -> None:
    async with serve() as client:
        for method in METHODS:
            await check_error(client, method.name, {}, rpc.NOT_INITIALIZED)


async def test_a_session_from_beginning_to_end(serve: Serve, workspace: Path) -> None:
    """new, prompt, inspect, rename, configure, list, export, compact (dry and real), fork; one server."""
    script = (
        {"say": "I read.", "calls": [{"name": "read", "arguments": {"path": "a.py"}}]},
        {"say": "It prints a."},
    )
    async with serve(*script) as client:
        one = await begin(client, workspace)
        named = {"sessionId": one}

        ended = await client.request("ullage/session/prompt", named | {"text": "what is it", "mentions": ["a.py"]})
        assert (ended["stop"], ended["error"], ended["totals"]["calls"]) == ("done", None, 2)
        told = kinds(client, one)
        assert told[-6:] == ["prompt", "turnStarted", "answer", "toolResult", "answer", "turnEnded"]
        prompt = next(each["update"] for each in updates(client, one) if each["update"]["kind"] == "prompt")
        assert prompt["text"] == "what is it\nMentioned files:\n- a.py"
        seqs = [each["seq"] for each in updates(client, one)]
        assert seqs == sorted(set(seqs))

        inspected = await client.request("ullage/context/inspect", named)
        assert any(each["name"] == "results: read" for each in inspected["categories"])
        newest = [params for name, params in client.notifications if name == "ullage/context/occupancy"][-1]
        assert inspected["occupancy"].items() <= newest.items()

        assert await client.request("ullage/session/rename", named | {"title": "Letters"}) == {}
        assert await client.request("ullage/session/configure", named | {"window": 50_000}) == {}
        await client.notification(UPDATE, is_update(one, "renamed"))
        await client.notification("ullage/context/occupancy", lambda params: params["window"] == 50_000)
        [listed] = (await client.request("ullage/session/list", {}))["sessions"]
        assert (listed["sessionId"], listed["title"], listed["openTurn"]) == (one, "Letters", False)

        text = (await client.request("ullage/session/export", named))["text"]
        assert "Letters" in text and "It prints a." in text
        lines = (await client.request("ullage/session/export", named | {"format": "jsonl"}))["text"].splitlines()
        assert [json.loads(line) for line in lines] == updates(client, one)

        dry = await client.request("ullage/session/compact", named | {"dryRun": True})
        assert dry["outcome"] is None and dry["preview"]["before"] > 0
        real = await client.request("ullage/session/compact", named | {"instructions": "Keep the letter."})
        assert real["outcome"] in ("committed", "refused") and real["preview"] is None

        fork = await client.request("ullage/session/fork", named | {"atSeq": seqs[-1]})
        assert fork["parent"] == {"sessionId": one, "seq": seqs[-1]}
        assert kinds(client, fork["sessionId"])[-1] == "forked"
        assert await client.stop() == 0


async def test_abilities_and_folders(serve: Serve, workspace: Path, tmp_path: Path) -> None:
    """workspaceFolders null works, folders come and go, several need a name, trust is a person's word."""
    other = tmp_path / "other"
    other.mkdir()
    async with serve() as client:
        result = await client.initialize(workspaceFolders=None)
        ours = result["capabilities"]["experimental"]["ullage"]
        assert ours["version"] == 1 and ours["methods"] == [method.name for method in METHODS]
        assert result["capabilities"]["executeCommandProvider"]["commands"] == ["ullage.compact", "ullage.fork"]
        assert result["capabilities"]["workspace"]["workspaceFolders"]["changeNotifications"] is True
        await check_error(client, "ullage/session/new", {}, "unknown_root")
        await check_error(client, "ullage/session/new", {"root": str(workspace)}, "unknown_root")
        await check_error(client, "ullage/session/new", {"root": "vscode-remote://x/y"}, "bad_root")

        def change(added: list[Path], removed: list[Path]) -> None:
            event = {
                name: [{"uri": path.as_uri(), "name": path.name} for path in paths]
                for name, paths in (("added", added), ("removed", removed))
            }
            client.notify("workspace/didChangeWorkspaceFolders", {"event": event})

        change([workspace, other], [])
        await check_error(client, "ullage/session/list", {}, "which_root")
        assert (await client.request("ullage/session/list", {"root": other.as_uri()}))["sessions"] == []
        trusted = await client.request("ullage/workspace/trust", {"root": other.as_uri(), "trusted": True})
        assert trusted == {"root": str(other), "trusted": True}
        change([], [other])
        await check_error(client, "ullage/workspace/trust", {"root": str(other), "trusted": True}, "unknown_root")
        session = await client.request("ullage/session/new", {"title": "One", "config": {"window": 9_000}})
        assert (session["root"], session["title"], session["config"]["window"]) == (str(workspace), "One", 9_000)


@pytest.mark.parametrize("trusted", [False, True])
async def test_an_untrusted_workspace_has_no_tools(serve: Serve, workspace: Path, trusted: bool) -> None:
    async with serve() as client:
        one = await begin(client, workspace, trusted=trusted)
        inspected = await client.request("ullage/context/inspect", {"sessionId": one})
        assert any(each["name"].startswith("tool ") for each in inspected["categories"]) == trusted


async def test_initialize_with_odd_options(serve: Serve, workspace: Path) -> None:
    """Wrong settings are left out with a note; options of a wrong type are refused, and initialize may come again."""
    async with serve() as client:
        with pytest.raises(RpcError) as caught:
            await client.initialize(workspace, initializationOptions={"ullage": {"trustedRoots": "all"}})
        assert caught.value.code == rpc.INVALID_PARAMS and "trustedRoots" in caught.value.message
        gone = (workspace / "gone").as_uri()
        said = {"window": 40_000, "outputCap": "x", "colour": 1}
        await client.initialize(
            workspaceFolders=[{"uri": workspace.as_uri(), "name": "w"}, {"uri": gone, "name": "g"}],
            initializationOptions={"ullage": {"settings": said, "later": 1}, "other": 2},
        )
        notes = [params["message"] for name, params in client.notifications if name == "window/logMessage"]
        assert (
            len(notes) == 3 and any("colour" in note for note in notes) and any("outputCap" in note for note in notes)
        )
        session = await client.request("ullage/session/new", {})
        assert session["config"]["window"] == 40_000


async def test_typed_errors(serve: Serve, workspace: Path) -> None:
    async with serve() as client:
        named = {"sessionId": await begin(client, workspace)}
        image = {"mediaType": "image/png", "data": "AA=="}
        prompt = "ullage/session/prompt"
        await check_error(client, prompt, {"sessionId": "nobody", "text": "x"}, "session_not_open")
        await check_error(client, prompt, named | {"text": " "}, "empty_prompt")
        await check_error(client, prompt, named | {"text": "x", "images": [image]}, "images_unsupported")
        await check_error(client, prompt, named | {"text": 7}, rpc.INVALID_PARAMS)
        await check_error(client, "ullage/session/open", {"sessionId": "../x"}, "bad_input")
        await check_error(client, "ullage/queue/remove", named | {"turnId": "t"}, "not_waiting")
        await check_error(client, "ullage/queue/edit", named | {"turnId": "t", "text": "x"}, "not_waiting")
        assert await client.request("ullage/queue/resume", named) == {}
        assert await client.request("ullage/session/cancel", named | {"turnId": "late"}) == {}


# --- cancelling, queueing ---


async def test_cancelling_a_prompt_ends_its_turn_first(serve: Serve, workspace: Path) -> None:
    """-32800 comes after the turn's end; a second cancel and a late one do nothing; the session goes on."""
    async with serve({"stall": "thinking about"}, {"say": "well"}) as client:
        named = {"sessionId": await begin(client, workspace)}
        request_id = client.start("ullage/session/prompt", named | {"text": "go", "turnId": "t1"})
        await client.notification(UPDATE, is_update(named["sessionId"], "delta"))
        for _ in range(3):
            client.notify("$/cancelRequest", {"id": request_id})
        answer = await client.answer(request_id)
        assert answer["error"]["code"] == rpc.CANCELLED
        ended = updates(client, named["sessionId"])[-1]["update"]
        assert (ended["kind"], ended["turnId"], ended["stop"]) == ("turnEnded", "t1", "cancelled")
        client.notify("$/cancelRequest", {"id": request_id})
        assert (await client.request("ullage/session/prompt", named | {"text": "again"}))["stop"] == "done"
        assert len(client.answers_to(request_id)) == 1


async def test_the_queue_is_edited_removed_held_and_resumed(serve: Serve, workspace: Path) -> None:
    async with serve({"stall": "busy"}, {"say": "two"}) as client:
        one = await begin(client, workspace)
        named = {"sessionId": one}
        running = client.start("ullage/session/prompt", named | {"text": "one", "turnId": "t1"})
        await client.notification(UPDATE, is_update(one, "delta"))
        second = client.start("ullage/session/prompt", named | {"text": "twoo", "turnId": "t2"})
        third = client.start("ullage/session/prompt", named | {"text": "three", "turnId": "t3"})
        fourth = client.start("ullage/session/prompt", named | {"text": "four", "turnId": "t4"})
        waits = lambda params: is_update(one, "prompt")(params) and params["update"]["turnId"] == "t4"  # noqa: E731
        await client.notification(UPDATE, waits)
        await client.request("ullage/queue/edit", named | {"turnId": "t2", "text": "two"})
        await client.request("ullage/queue/remove", named | {"turnId": "t3"})
        assert (await client.result(third))["stop"] == "cancelled"
        client.notify("$/cancelRequest", {"id": fourth})
        assert (await client.answer(fourth))["error"]["code"] == rpc.CANCELLED
        await client.request("ullage/session/cancel", named)
        assert (await client.result(running))["stop"] == "cancelled"
        opened = await client.request("ullage/session/open", named | {"fromSeq": 10_000})
        assert opened["held"] and opened["waitingTurns"] == ["t2"]
        await client.request("ullage/queue/resume", named)
        assert (await client.result(second))["stop"] == "done"
        edited = [each["update"]["text"] for each in updates(client, one) if each["update"]["kind"] == "prompt"]
        assert edited == ["one", "twoo", "three", "four", "two"]


async def test_shutdown_ends_a_turn_and_answers_it(serve: Serve, workspace: Path) -> None:
    async with serve({"stall": "busy"}) as client:
        one = await begin(client, workspace)
        request_id = client.start("ullage/session/prompt", {"sessionId": one, "text": "go"})
        await client.notification(UPDATE, is_update(one, "delta"))
        assert await client.stop() == 0
        assert client.answers_to(request_id)[0]["error"]["code"] == rpc.CANCELLED


# --- reconnecting ---


async def test_a_killed_server_loses_nothing_it_told(serve: Serve, workspace: Path) -> None:
    """A new client gets from its seq on exactly what it missed; the turn in the middle is closed, not run again."""
    async with serve({"say": "first"}, {"stall": "in the middle"}) as client:
        one = await begin(client, workspace)
        await client.request("ullage/session/prompt", {"sessionId": one, "text": "one"})
        client.start("ullage/session/prompt", {"sessionId": one, "text": "two", "turnId": "t2"})
        await client.notification(UPDATE, is_update(one, "delta"))
        await client.notification(
            UPDATE, lambda params: is_update(one, "turnStarted")(params) and params["update"]["turnId"] == "t2"
        )
        before = updates(client, one)
    async with serve({"say": "third"}) as client:
        await client.initialize(workspace)
        await check_error(client, "ullage/session/prompt", {"sessionId": one, "text": "x"}, "session_not_open")
        opened = await client.request("ullage/session/open", {"sessionId": one, "fromSeq": before[3]["seq"]})
        again = updates(client, one)
        assert again[: len(before) - 3] == before[3:]
        assert again[-1]["update"]["kind"] in ("turnEnded", "turnStarted") and opened["readOnly"] is None
        ended = await client.notification(
            UPDATE, lambda params: is_update(one, "turnEnded")(params) and params["update"]["turnId"] == "t2"
        )
        assert ended["update"]["stop"] == "interrupted"
        result = await client.request("ullage/session/prompt", {"sessionId": one, "text": "three"})
        assert result["stop"] == "done"


async def test_opening_in_the_middle_of_an_answer_gives_the_overlay(serve: Serve, workspace: Path) -> None:
    async with serve({"stall": "one two three"}) as client:
        one = await begin(client, workspace)
        client.start("ullage/session/prompt", {"sessionId": one, "text": "go"})
        await client.notification(
            UPDATE, lambda params: is_update(one, "delta")(params) and params["update"]["text"].endswith("three")
        )
        client.notifications.clear()
        await client.request("ullage/session/open", {"sessionId": one})
        deltas = [
            params["update"]
            for name, params in client.notifications
            if name == UPDATE and params["update"]["kind"] == "delta"
        ]
        assert [(each["offset"], each["text"]) for each in deltas] == [(0, "one two three")]


# --- commands and progress ---


def long_answers() -> tuple[dict[str, Any], ...]:
    return tuple({"say": f"{number} " + "word " * 1_500} for number in range(4))


async def test_commands_answer_at_once_and_show_progress(serve: Serve, workspace: Path) -> None:
    async with serve(*long_answers()) as client:
        client.handlers["window/workDoneProgress/create"] = lambda params: None
        one = await begin(client, workspace, **BARS)
        for number in range(3):
            await client.request("ullage/session/prompt", {"sessionId": one, "text": f"go {number}"})
        execute = "workspace/executeCommand"
        assert await client.request(execute, {"command": "ullage.compact"}) == {"sessionId": one}
        begun = await client.notification("$/progress", lambda params: params["value"]["kind"] == "begin")
        assert begun["value"]["cancellable"] is True
        ended = await client.notification("$/progress", lambda params: params["value"]["kind"] == "end")
        assert ended["token"] == begun["token"] and "tokens" in ended["value"]["message"]
        await client.notification("ullage/context/compaction", lambda params: params["status"] == "committed")

        assert await client.request(execute, {"command": "ullage.fork", "arguments": [one]}) == {"sessionId": one}
        await client.notification(UPDATE, lambda params: params["update"]["kind"] == "forked")
        await client.notification("$/progress", lambda params: "The fork is" in (params["value"].get("message") or ""))
        with pytest.raises(RpcError) as caught:
            await client.request(execute, {"command": "ullage.fork", "arguments": [{"jsonrpc": "2.0"}]})
        assert caught.value.code == rpc.INVALID_PARAMS
        await check_error(client, execute, {"command": "ullage.compact", "arguments": ["nobody"]}, "session_not_open")


@pytest.mark.parametrize("answer", [NEVER, None])
async def test_a_client_that_shows_no_bar_still_gets_its_compaction(
    serve: Serve, workspace: Path, answer: Callable[[dict[str, Any]], Any] | None
) -> None:
    """It refuses the bar, or never answers: nothing waits for that, shutdown included."""
    async with serve(*long_answers()) as client:
        if answer:
            client.handlers["window/workDoneProgress/create"] = answer
        one = await begin(client, workspace, **BARS)
        for number in range(3):
            await client.request("ullage/session/prompt", {"sessionId": one, "text": f"go {number}"})
        result = await client.request("ullage/session/compact", {"sessionId": one})
        assert result["outcome"] == "committed" and result["report"]["after"] < result["report"]["before"]
        assert [name for name, _ in client.notifications if name == "$/progress"] == []
        assert await client.stop() == 0


async def test_automatic_compactions_show_a_bar_too(serve: Serve, workspace: Path) -> None:
    answers = tuple({"say": f"{number} " + "word " * 2_000} for number in range(8))
    async with serve(*answers, window=16_000) as client:
        client.handlers["window/workDoneProgress/create"] = lambda params: None
        one = await begin(client, workspace, **BARS)
        for number in range(6):
            await client.request("ullage/session/prompt", {"sessionId": one, "text": f"go {number}"})
        done = await client.notification("ullage/context/compaction", lambda params: params["status"] == "committed")
        assert done["reason"] == "threshold"
        await client.notification("$/progress", lambda params: params["value"]["kind"] == "end")
        await client.notification(UPDATE, is_update(one, "compacted"))
