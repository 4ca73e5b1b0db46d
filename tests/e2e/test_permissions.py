"""A file is changed over stdio: the person is asked and shown what would be done, and their word counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.editor import Editor, serving

from ullage.editors.methods import PERMISSION

pytestmark = pytest.mark.asyncio(loop_scope="session")


def does(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


READ = does("read", path="made.txt")
EDIT = does("edit", path="made.txt", edits=[{"old_text": "wrong", "new_text": "right"}])
AGAIN = does("edit", path="made.txt", edits=[{"old_text": "right", "new_text": "righter"}])


def answering(editor: Editor, *answers: dict[str, Any]) -> list[Any]:
    """Answer questions in this order; what was asked."""
    asked: list[Any] = []

    @editor.feature(PERMISSION)
    def answer(params: Any) -> dict[str, Any]:
        asked.append(params)
        return answers[len(asked) - 1]

    return asked


def results(editor: Editor, session_id: str) -> list[dict[str, Any]]:
    told = (each["update"] for each in editor.updates(session_id))
    return [result for update in told if update["kind"] == "toolResult" for result in update["results"]]


async def test_an_edit_is_asked_for_and_made(home: Path) -> None:
    """Once, then for the session: the second edit of the same session is not asked for."""
    async with serving(home, [READ, EDIT, AGAIN, AGAIN, {"say": "Done."}]) as editor:
        file = editor.workspace / "made.txt"
        file.write_text("this is wrong\n")
        asked = answering(editor, {"decision": "allow"}, {"decision": "allow", "scope": "session"})
        one = await editor.new()
        ended = await editor.ask("session/prompt", one, text="Mend it.")
        assert ended["stop"] == "done"
        assert file.read_text() == "this is righterer\n"
        assert [result["op"] for result in results(editor, one)] == ["read", "write", "write", "write"]
    first, _ = asked
    assert first["shown"].splitlines()[-2:] == ["-this is wrong", "+this is right"]
    assert first["targets"] == [str(file.resolve())]
    assert (first["careful"], first["grant"]) == (None, "writing files that are not protected")


async def test_a_reason_reaches_the_model(home: Path) -> None:
    async with serving(home, [READ, EDIT, {"say": "Well."}]) as editor:
        file = editor.workspace / "made.txt"
        file.write_text("this is wrong\n")
        asked = answering(editor, {"decision": "deny", "reason": "leave it wrong"})
        one = await editor.new()
        await editor.ask("session/prompt", one, text="Mend it.")
        assert file.read_text() == "this is wrong\n" and len(asked) == 1
        assert results(editor, one)[-1]["text"] == "Not run: leave it wrong"


async def test_a_protected_file_is_asked_for_in_every_mode(home: Path) -> None:
    """S5; no answer, or one that is none, is a no."""
    script = [does("write", path=".vscode/settings.json", content="{}"), {"say": "Well."}]
    async with serving(home, script) as editor:
        asked = answering(editor, {"decision": "perhaps"})
        one = await editor.new()
        await editor.ask("session/configure", one, permissionMode="auto")
        await editor.ask("session/prompt", one, text="Set it.")
        assert ".vscode makes other programs do things" in asked[0]["careful"] and asked[0]["grant"] is None
        assert not (editor.workspace / ".vscode").exists()
        assert results(editor, one)[-1]["text"] == "Not run: the editor gave no answer."
