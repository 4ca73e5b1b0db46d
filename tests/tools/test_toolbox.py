"""The toolbox as a whole: schemas, arguments, errors."""

from __future__ import annotations

import asyncio
import json
import threading

import jsonschema
import pytest
from tests.tools.hands import Hands

from ullage.core.messages import BlobRef, Op
from ullage.core.ports import Tools
from ullage.tools.toolbox import Toolbox

ALL = ("apply_patch", "edit", "glob", "grep", "list", "read", "read_output", "recall", "todo", "write")


def test_specs_are_sorted_and_stable(hands: Hands) -> None:
    """The prefix of every request holds them: the same text in every session and process."""
    tools: Tools = hands.toolbox()
    specs = tools.specs()
    assert [spec.name for spec in specs] == [*ALL]
    assert tools.specs() is specs
    for spec in specs:
        jsonschema.Draft202012Validator.check_schema(spec.schema)
        assert json.dumps(spec.schema) == json.dumps(spec.schema, sort_keys=True)
        assert spec.description and spec.changes is (spec.name in ("apply_patch", "edit", "write"))
        assert all("description" in field for field in spec.schema["properties"].values())
        for inner in spec.schema.get("$defs", {}).values():
            assert all("description" in field for field in inner["properties"].values())


def test_a_schema_in_full(hands: Hands) -> None:
    schema = {spec.name: spec.schema for spec in hands.toolbox().specs()}["read"]
    assert schema == {
        "additionalProperties": False,
        "properties": {
            "first_line": {
                "default": 1,
                "description": "First line to show, counting from 1.",
                "minimum": 1,
                "type": "integer",
            },
            "lines": {
                "default": 500,
                "description": "How many lines to show.",
                "minimum": 1,
                "type": "integer",
            },
            "path": {"description": "File, relative to the workspace folder.", "type": "string"},
        },
        "required": ["path"],
        "type": "object",
    }


ARGUMENT_ROWS = {
    "no JSON": ("read", "{path:", "Expected a JSON object with 'path' (required), 'first_line', 'lines'."),
    "no object": ("read", "[]", "object"),
    "missing": ("read", "{}", "path: Field required"),
    "nothing at all": ("read", "", "path: Field required"),
    "unknown name": ("read", '{"path": "a", "file": "b"}', "file: Extra inputs are not permitted"),
    "wrong type": ("read", '{"path": 5}', "path: Input should be a valid string"),
    "out of range": ("read", '{"path": "a", "first_line": 0}', "first_line: Input should be greater than"),
    "huge number": ("read", '{"path": "readme.md", "first_line": 1' + "0" * 30 + "}", "behind its end"),
    "not a number": ("read", '{"path": "a", "lines": NaN}', "lines: "),
    "lone surrogate": ("read", '{"path": "\\ud800"}', "Bad arguments for 'read'"),
    "raw surrogate": ("read", '{"path": "\ud800"}', "does not exist"),
    "very deep": ("read", "[" * 100_000, "Bad arguments for 'read'"),
    "no reference": ("read_output", '{"reference": "../../x"}', "reference: String should match pattern"),
    "unknown tool": ("bash", '{"command": "rm"}', f"The tools are: {', '.join(ALL)}."),
}


@pytest.mark.parametrize("row", ARGUMENT_ROWS)
async def test_bad_arguments(hands: Hands, row: str) -> None:
    """An outcome that says what is expected, never an exception."""
    tool, raw, says = ARGUMENT_ROWS[row]
    outcome = await hands.toolbox().run(tool, raw)
    assert outcome.is_error and says in outcome.text
    assert outcome.facts is not None and outcome.facts.detail


async def test_no_arguments_are_an_empty_object(hands: Hands) -> None:
    """Some servers write no text at all for a call without arguments."""
    outcome = await hands.toolbox().run("list", "")
    assert not outcome.is_error and "readme.md" in outcome.text


async def test_a_fault_of_ours_is_an_outcome(hands: Hands, caplog: pytest.LogCaptureFixture) -> None:
    """Never a traceback at a model or a user; it is in the log."""

    def broken() -> list[object]:
        raise RuntimeError("a bug")

    box = Toolbox(hands.root, hands.blobs, broken, hands.recall)  # type: ignore[arg-type]
    outcome = await box.run("read_output", json.dumps({"reference": "0" * 64}))
    assert outcome.is_error and "a bug" not in outcome.text and "a bug" in caplog.text
    assert outcome.facts is not None and outcome.facts.op is Op.READ


async def test_root_gone(hands: Hands) -> None:
    """P12 through the tools."""
    hands.ws.rename(hands.ws.parent / "moved")
    calls = {"read": {"path": "readme.md"}, "list": {}, "glob": {"pattern": "*"}, "grep": {"pattern": "x"}}
    for tool, arguments in calls.items():
        await hands.refused(tool, "root_gone", **arguments)


async def test_cancelling_waits_for_the_thread(hands: Hands) -> None:
    """Who cancels may close the root next: until the thread is done with it, the call has not ended."""
    entered, release = threading.Event(), threading.Event()
    left: list[str] = []

    def allowed() -> list[BlobRef]:
        entered.set()
        release.wait()
        left.append("left")
        return []

    box = Toolbox(hands.root, hands.blobs, allowed, hands.recall)
    call = asyncio.ensure_future(box.run("read_output", json.dumps({"reference": "0" * 64})))
    await asyncio.to_thread(entered.wait)
    call.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    still_waiting = not call.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert still_waiting and left == ["left"]


async def test_where_nothing_may_change_there_is_no_tool_for_it(hands: Hands) -> None:
    """The model is not told of what nobody could allow, and could not call it either."""
    box = hands.toolbox(writes=False)
    assert not any(spec.changes for spec in box.specs())
    outcome = await box.run("write", json.dumps({"path": "f", "content": "x"}))
    assert outcome.is_error and "There is no tool 'write'" in outcome.text and not (hands.ws / "f").exists()
