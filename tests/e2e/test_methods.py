"""Every method of the one table over stdio: what it is for, and one input that it refuses."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.e2e.editor import Editor, refusal

from ullage.core.events import SessionCreated, SessionRenamed
from ullage.editors.methods import METHODS, PREFIX
from ullage.storage.files import DiskFiles
from ullage.storage.ids import new_session_id, session_path, workspace_key
from ullage.storage.log import SessionLog
from ullage.wire import rpc

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOBODY = {"sessionId": "nobody"}


async def check_new(editor: Editor) -> None:
    session = await editor.request("ullage/session/new", {"title": "Letters", "config": {"window": 50_000}})
    assert (session["title"], session["config"]["window"], session["seq"] >= 0) == ("Letters", 50_000, True)
    assert editor.kinds(session["sessionId"])[0] == "created"


async def check_list(editor: Editor) -> None:
    one = await editor.new(title="In the list")
    listed = (await editor.request("ullage/session/list", {"root": editor.workspace.as_uri()}))["sessions"]
    assert (listed[0]["sessionId"], listed[0]["title"], listed[0]["damaged"]) == (one, "In the list", False)


async def check_search(editor: Editor) -> None:
    one = await editor.new(title="A needle, say")
    await editor.ask("session/prompt", one, text="Where did 端口 54329 go?", turnId="t1")
    found = await editor.request("ullage/session/search", {"query": "端口 54329"})
    [each] = [each for each in found["sessions"] if each["session"]["sessionId"] == one]
    [prompt] = [update for update in editor.updates(one) if update["update"]["kind"] == "prompt"]
    [hit] = each["hits"]
    assert (hit["seq"], hit["kind"], hit["messageId"]) == (prompt["seq"], "prompt", "t1/u")
    assert hit["snippet"] == "Where did 端口 54329 go?" and found["complete"]
    assert (await editor.request("ullage/session/search", {"query": "'\" OR *"}))["complete"]


async def check_open(editor: Editor) -> None:
    one = await editor.new()
    await editor.ask("session/rename", one, title="Opened")
    before = editor.updates(one)
    opened = await editor.ask("session/open", one, fromSeq=before[-1]["seq"])
    assert (opened["title"], opened["seq"]) == ("Opened", before[-1]["seq"])
    assert editor.updates(one) == [*before, before[-1]]


async def check_prompt(editor: Editor) -> None:
    one = await editor.new()
    ended = await editor.ask("session/prompt", one, text="go", turnId="t1")
    assert (ended["turnId"], ended["stop"], ended["error"], ended["timing"]["steps"]) == ("t1", "done", None, 1)
    assert editor.kinds(one)[-4:] == ["prompt", "turnStarted", "answer", "turnEnded"]


async def check_cancel(editor: Editor) -> None:
    one = await editor.new()
    running = editor.start("ullage/session/prompt", {"sessionId": one, "text": "go", "turnId": "t1"})
    await editor.update(one, "delta")
    assert await editor.ask("session/cancel", one, turnId="t1") == {}
    assert (await editor.answer(running))["result"]["stop"] == "cancelled"


async def check_compact(editor: Editor) -> None:
    one = await editor.new()
    for number in range(3):
        await editor.ask("session/prompt", one, text=f"go {number}")
    dry = await editor.ask("session/compact", one, dryRun=True)
    assert dry["outcome"] is None and dry["preview"]["messages"] > 0
    real = await editor.ask("session/compact", one, instructions="Keep the letter.")
    assert real["outcome"] == "committed" and real["report"]["after"] < real["report"]["before"]
    assert editor.kinds(one)[-1] == "compacted" and editor.compactions(one)[-1] == "committed"


async def check_fork(editor: Editor) -> None:
    one = await editor.new(title="Parent")
    await editor.ask("session/prompt", one, text="go")
    parent = editor.updates(one)
    fork = await editor.ask("session/fork", one, atSeq=parent[-1]["seq"])
    assert fork["parent"] == {"sessionId": one, "seq": parent[-1]["seq"]}
    copied = editor.updates(fork["sessionId"])
    assert [each["update"] for each in copied[1:-1]] == [each["update"] for each in parent[1:]]
    assert copied[-1]["update"]["kind"] == "forked"


async def check_rewind(editor: Editor) -> None:
    one = await editor.new()
    for turn in ("t1", "t2"):
        await editor.ask("session/prompt", one, text=f"say {turn}", turnId=turn)
    dry = await editor.ask("session/rewind", one, messageId="t2/u", dryRun=True)
    assert (dry["seq"], dry["turns"], dry["after"] < dry["before"]) == (None, ["t2"], True)
    done = await editor.ask("session/rewind", one, turnId="t2")
    assert {**done, "seq": None} == dry
    told = editor.updates(one)[-1]
    assert (told["seq"], told["update"]["kind"], told["update"]["turns"]) == (done["seq"], "rewound", ["t2"])
    assert "say t2" not in (await editor.ask("session/export", one))["text"]


async def check_redo(editor: Editor) -> None:
    one = await editor.new()
    await editor.ask("session/prompt", one, text="say t1", turnId="t1")
    went = await editor.ask("session/rewind", one, turnId="t1")
    back = await editor.ask("session/redo", one)
    assert (back["turns"], back["before"], back["after"] > went["after"]) == (["t1"], went["after"], True)
    assert editor.updates(one)[-1]["update"] == {"kind": "redone", "rewindSeq": went["seq"], "turns": ["t1"]}
    assert (await refusal(editor.ask("session/redo", one))).data["code"] == "nothing_to_redo"


async def check_rename(editor: Editor) -> None:
    one = await editor.new()
    assert await editor.ask("session/rename", one, title="Zoë \U0001f377") == {}
    assert editor.updates(one)[-1]["update"] == {"kind": "renamed", "title": "Zoë \U0001f377"}


async def check_pin(editor: Editor) -> None:
    """A message or a text, told as updates, shown by `context/inspect`; the same again is the same pin."""
    one = await editor.new()
    await editor.ask("session/prompt", one, text="use tabs", turnId="t1")
    typed = (await editor.ask("session/pin", one, text="Never push."))["pinId"]
    assert await editor.ask("session/pin", one, text="Never push.") == {"pinId": typed}
    assert await editor.ask("session/pin", one, messageId="t1/u") == {"pinId": "t1/u"}
    pins = [
        {"pinId": typed, "messageId": None, "role": "user", "text": "Never push."},
        {"pinId": "t1/u", "messageId": "t1/u", "role": "user", "text": "use tabs"},
    ]
    assert [each["update"] for each in editor.updates(one)[-2:]] == [{"kind": "pinned", **pin} for pin in pins]
    shown = (await editor.ask("context/inspect", one))["pins"]
    assert all(pin.pop("tokens") > 0 for pin in shown) and shown == pins
    for wrong in ({}, {"text": "x", "messageId": "t1/u"}):
        error = await refusal(editor.ask("session/pin", one, **wrong))
        assert error.data["code"] == "bad_pin"


async def check_unpin(editor: Editor) -> None:
    one = await editor.new()
    pin = (await editor.ask("session/pin", one, text="Never push."))["pinId"]
    for _ in range(2):
        assert await editor.ask("session/unpin", one, pinId=pin) == {}
    assert editor.updates(one)[-1]["update"] == {"kind": "unpinned", "pinId": pin}
    assert (await editor.ask("context/inspect", one))["pins"] == []


async def check_leave_out(editor: Editor) -> None:
    """A whole unit goes and comes back; the number falls; the transcript stays, and so does what a search finds."""
    one = await editor.new()
    for turn in ("t1", "t2"):
        await editor.ask("session/prompt", one, text=f"say {turn} " + "x " * 500, turnId=turn)

    async def used() -> int:
        return int((await editor.ask("context/inspect", one))["occupancy"]["used"])

    told = editor.updates(one)
    await editor.ask("session/leaveOut", one, messageIds=["t2/u"])
    before = await used()  # the provider's measure is gone: all is estimated from here on
    left = await editor.ask("session/leaveOut", one, messageIds=["t1/u"])
    assert left["messageIds"] == ["t1/u"] and left["tokens"] > 200
    assert await used() <= before - left["tokens"]
    shown = (await editor.ask("context/inspect", one))["leftOut"]
    assert shown["messageIds"] == ["t1/u", "t2/u"] and shown["tokens"] > left["tokens"]
    update = editor.updates(one)[-1]["update"]
    assert (update["kind"], update["reason"], update["tokens"]) == ("omission", "asked", left["tokens"])
    entered = [each["seq"] for each in told if each["update"] == {"kind": "turnStarted", "turnId": "t1"}]
    assert update["seqs"] == entered
    await editor.ask("session/open", one)
    assert "say t1" in (await editor.ask("session/export", one))["text"]
    assert await editor.ask("session/leaveOut", one, seqs=entered, back=True) == left
    assert await used() == before
    for wrong in ({}, {"messageIds": ["t9/u"]}, {"seqs": [0]}):
        assert (await refusal(editor.ask("session/leaveOut", one, **wrong))).data["code"] == "not_in_view"


async def check_export(editor: Editor) -> None:
    one = await editor.new(title="Letters")
    await editor.ask("session/prompt", one, text="what is it")
    text = (await editor.ask("session/export", one))["text"]
    assert text.startswith("# Letters\n") and "what is it" in text
    lines = (await editor.ask("session/export", one, format="jsonl"))["text"]
    assert [json.loads(line) for line in lines.splitlines()] == editor.updates(one)


async def check_configure(editor: Editor) -> None:
    one = await editor.new()
    assert await editor.ask("session/configure", one, window=60_000, handoff=False) == {}
    changed = editor.updates(one)[-1]["update"]
    assert (changed["kind"], changed["change"]["window"], changed["change"]["handoff"]) == ("configured", 60_000, False)
    await editor.until(lambda: editor.told("ullage/context/occupancy", one)[-1]["window"] == 60_000)


async def check_accept_damage(editor: Editor) -> None:
    """A log whose middle line is unreadable: shown, refused to be written, then accepted."""
    one = new_session_id(1_700_000_000_000)
    root = str(editor.workspace)
    path = session_path(editor.home, workspace_key(root), one)
    log = SessionLog.create(DiskFiles(), path, SessionCreated(one, root, 1, 2), 1)
    for number in range(3):
        log.append([SessionRenamed(f"title {number}")], 2)
    log.close()
    path.write_bytes(path.read_bytes().replace(b"title 1", b"title \xff"))

    opened = await editor.ask("session/open", one)
    assert opened["title"] == "title 2" and "damaged" in opened["readOnly"]
    assert (await refusal(editor.ask("session/rename", one, title="x"))).data["code"] == "session_damaged"
    assert await editor.ask("session/acceptDamage", one) == {}
    await editor.update(one, "damageAccepted")
    assert (await editor.ask("session/open", one))["readOnly"] is None
    assert await editor.ask("session/rename", one, title="Goes on") == {}


async def waiting(editor: Editor) -> tuple[str, str, str]:
    """A session with a running turn t1 and a prompt t2 that waits; its id and the two requests."""
    one = await editor.new()
    first = editor.start("ullage/session/prompt", {"sessionId": one, "text": "one", "turnId": "t1"})
    await editor.update(one, "turnStarted", turnId="t1")
    second = editor.start("ullage/session/prompt", {"sessionId": one, "text": "two", "turnId": "t2"})
    await editor.update(one, "prompt", turnId="t2")
    return one, first, second


async def check_queue_edit(editor: Editor) -> None:
    one, *_ = await waiting(editor)
    assert await editor.ask("queue/edit", one, turnId="t2", text="two, edited") == {}
    edited = await editor.update(one, "prompt", text="two, edited")
    assert (edited["update"]["turnId"], edited["update"]["mode"]) == ("t2", None)


async def check_queue_remove(editor: Editor) -> None:
    one, _, second = await waiting(editor)
    assert await editor.ask("queue/remove", one, turnId="t2") == {}
    await editor.update(one, "promptRemoved", turnId="t2")
    assert (await editor.answer(second))["result"]["stop"] == "cancelled"


async def check_queue_resume(editor: Editor) -> None:
    """Cancelling the running turn holds the queue; a person lets it run again."""
    one, first, _ = await waiting(editor)
    await editor.ask("session/cancel", one)
    assert (await editor.answer(first))["result"]["stop"] == "cancelled"
    opened = await editor.ask("session/open", one, fromSeq=1_000)
    assert opened["held"] and opened["waitingTurns"] == ["t2"]
    assert await editor.ask("queue/resume", one) == {}
    await editor.update(one, "turnStarted", turnId="t2")


async def check_inspect(editor: Editor) -> None:
    one = await editor.new()
    await editor.ask("session/prompt", one, text="go")
    inspected = await editor.ask("context/inspect", one)
    assert sum(each["tokens"] for each in inspected["categories"]) > 2_000 and inspected["biggest"]
    assert inspected["occupancy"].items() <= editor.told("ullage/context/occupancy", one)[-1].items()


async def check_auth(editor: Editor) -> None:
    """Given, taken back; never said again."""
    for key, source in (("a-key-of-this-test", "editor"), (None, None)):
        told = await editor.request("ullage/auth/set", {"provider": "anthropic", "key": key})
        assert told == {"provider": "anthropic", "source": source}
    assert not any(b"a-key-of-this-test" in body for body in editor.bodies)


async def check_trust(editor: Editor) -> None:
    one, root = await editor.new(), editor.workspace.as_uri()
    for trusted in (False, True):
        told = await editor.request("ullage/workspace/trust", {"root": root, "trusted": trusted})
        assert told == {"root": str(editor.workspace), "trusted": trusted}
        categories = (await editor.ask("context/inspect", one))["categories"]
        assert any(each["name"].startswith("tool ") for each in categories) is trusted


@dataclass(frozen=True)
class Row:
    """A method, a check of what it is for, params that it refuses, and the word it refuses them with."""

    name: str
    check: Callable[[Editor], Awaitable[None]]
    code: str
    bad: dict[str, Any] = field(default_factory=lambda: dict(NOBODY))
    model: str = "talking"


ROWS = (
    Row("session/new", check_new, "unknown_root", {"root": "/nowhere"}),
    Row("session/list", check_list, "bad_root", {"root": "vscode-remote://x/y"}),
    Row("session/search", check_search, "unknown_root", {"root": "/nowhere", "query": "x"}),
    Row("session/open", check_open, "bad_input", {"sessionId": "../../etc"}),
    Row("session/prompt", check_prompt, "session_not_open", NOBODY | {"text": "x"}),
    Row("session/cancel", check_cancel, "session_not_open", model="stalling"),
    Row("session/compact", check_compact, "session_not_open"),
    Row("session/fork", check_fork, "session_not_open"),
    Row("session/pin", check_pin, "session_not_open", NOBODY | {"text": "x"}),
    Row("session/unpin", check_unpin, "session_not_open", NOBODY | {"pinId": "x"}),
    Row("session/rewind", check_rewind, "session_not_open", NOBODY | {"turnId": "t1"}),
    Row("session/redo", check_redo, "session_not_open"),
    Row("session/leaveOut", check_leave_out, "session_not_open", NOBODY | {"messageIds": ["x"]}),
    Row("session/rename", check_rename, "session_not_open", NOBODY | {"title": "x"}),
    Row("session/export", check_export, "session_not_open"),
    Row("session/configure", check_configure, "session_not_open", NOBODY | {"window": 50_000}),
    Row("session/acceptDamage", check_accept_damage, "session_not_open"),
    Row("queue/edit", check_queue_edit, "session_not_open", NOBODY | {"turnId": "t", "text": "x"}, "stalling"),
    Row("queue/remove", check_queue_remove, "session_not_open", NOBODY | {"turnId": "t"}, "stalling"),
    Row("queue/resume", check_queue_resume, "session_not_open", model="stalling"),
    Row("context/inspect", check_inspect, "session_not_open"),
    Row("auth/set", check_auth, "bad_input", {"provider": "nobody", "key": "x"}),
    Row("workspace/trust", check_trust, "unknown_root", {"root": "/nowhere", "trusted": True}),
)


async def test_the_rows_are_the_table_of_methods() -> None:
    assert [PREFIX + row.name for row in ROWS] == [method.name for method in METHODS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_method_does_what_it_is_for(row: Row, talking: Editor, stalling: Editor) -> None:
    editor = {"talking": talking, "stalling": stalling}[row.model]
    editor.answered.clear()
    await row.check(editor)
    assert PREFIX + row.name in editor.answered


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_method_refuses_with_a_word_and_a_hint(row: Row, talking: Editor) -> None:
    error = await refusal(talking.request(PREFIX + row.name, row.bad))
    assert (error.code, error.data["code"]) == (rpc.OUR_ERROR, row.code)
    assert error.data["hint"] and error.data["message"] == error.message


async def test_params_of_a_wrong_type_are_named_and_not_repeated(talking: Editor) -> None:
    wrong = {"sessionId": ["secret"], "root": ["secret"], "trusted": "yes"}
    for method in METHODS:
        error = await refusal(talking.request(method.name, wrong))
        assert error.code == rpc.INVALID_PARAMS and error.data[0]["at"]
        assert "secret" not in str(error.data)
