"""Small made-up sessions, one record of every kind, as the three formats write them."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from tests.context.histories import Quarter

COUNTER = Quarter()
ROOT = "/home/person/project"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x02\0\0\0"
PICTURE = base64.b64encode(PNG).decode()

Record = dict[str, Any]


def lines(*records: Record) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


# --- Claude Code ---

CLAUDE = "claude-opus-4-5-20251101"


class Claude:
    """Records in a chain, with times and ids of their own."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, kind: str, **fields: Any) -> Claude:
        number = len(self.records)
        base = {"type": kind, "uuid": f"u{number}", "sessionId": "s1", "cwd": ROOT}
        self.records.append({**base, "timestamp": f"2026-01-02T03:04:{number % 60:02}.500Z", **fields})
        return self

    def user(self, content: Any, **fields: Any) -> Claude:
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def result(self, call: str, content: Any, **block: Any) -> Claude:
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": content, **block}])

    def answer(self, message_id: str, *blocks: Record, usage: Record | None = None, **fields: Any) -> Claude:
        used = usage or {"input_tokens": 10, "cache_read_input_tokens": 900, "output_tokens": 5}
        stop = fields.pop("stop", "tool_use")
        message = {"id": message_id, "model": CLAUDE, "content": list(blocks), "usage": used, "stop_reason": stop}
        return self.add("assistant", message={**message, **fields.pop("message", {})}, **fields)

    @property
    def content(self) -> bytes:
        return lines(*self.records)


def use(call: str, name: str, **given: Any) -> Record:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def text(said: str) -> Record:
    return {"type": "text", "text": said}


def claude_code() -> Claude:
    """Every kind of record that the format's table names."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "abcd"}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
    session = Claude()
    session.add("summary", summary="Earlier", leafUuid="x").add("file-history-snapshot", snapshot={})
    session.user("<local-command-stdout>Bye</local-command-stdout>")
    session.user([text("mend the parser"), image])
    session.answer("m1", thinking, usage={"input_tokens": 10, "cache_read_input_tokens": 900, "output_tokens": 1})
    session.answer("m1", use("c1", "Read", file_path=f"{ROOT}/a.py"))
    session.result("c1", "1: x")
    session.answer("m1", use("c2", "Bash", command="make test"), usage={"input_tokens": 10, "output_tokens": 40})
    session.add("progress", data={"type": "bash_progress"})
    session.user([
        {"type": "tool_result", "tool_use_id": "c2", "content": "Exit code 2\nE: boom", "is_error": True},
        text("be quick"),
    ])  # fmt: skip
    session.answer("m2", use("c3", "Skill", skill="review")).result("c3", "Launching")
    session.user([text("How to review")], isMeta=True, sourceToolUseID="c3")
    session.user("Caveat: made by a hook", isMeta=True)
    session.answer("m3", text("done"), stop="end_turn")
    session.add("system", subtype="turn_duration", durationMs=5).add("system", subtype="stop_hook_summary")
    session.add("queue-operation", operation="enqueue", content="more").add("pr-link", prNumber=1)
    session.add("attachment", attachment={})
    session.user("look", isSidechain=True).answer("s1", text("aside"), isSidechain=True)
    session.user("more").answer("m4", use("c4", "Edit", file_path=f"{ROOT}/b/../b.py", old_string="x"))
    session.result("c4", "The file has been updated").answer("m5", use("c5", "Glob", pattern="*"))
    session.user([text("[Request interrupted by user]")])
    for kind in ("microcompact_boundary", "local_command", "api_error", "informational"):
        session.add("system", subtype=kind)
    session.add("system", subtype="compact_boundary", compactMetadata={"trigger": "manual", "preTokens": 5_000})
    session.user("What happened: much.", isCompactSummary=True)
    session.user("go on").answer("m6", text("No response requested."), message={"model": "<synthetic>"})
    session.answer("m7", text("gone on"), stop="end_turn")
    session.records.append(session.records[3])
    return session


# --- codex ---


def item(kind: str, **payload: Any) -> Record:
    return {"type": "response_item", "timestamp": "2026-01-02T03:04:05Z", "payload": {"type": kind, **payload}}


def event(kind: str, **payload: Any) -> Record:
    return {"type": "event_msg", "timestamp": "2026-01-02T03:04:05Z", "payload": {"type": kind, **payload}}


def said(role: str, *texts: str) -> Record:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": each} for each in texts])


def counted(prompt: int, output: int, total: int) -> Record:
    last = {"input_tokens": prompt, "output_tokens": output, "reasoning_output_tokens": 3}
    info = {"last_token_usage": last, "total_token_usage": {"total_tokens": total}, "model_context_window": 258_400}
    return event("token_count", info=info)


def call(call_id: str, **given: Any) -> Record:
    return item("function_call", call_id=call_id, name="exec_command", arguments=json.dumps(given))


def output(call_id: str, said: Any, kind: str = "function_call_output") -> Record:
    return item(kind, call_id=call_id, output=said)


PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: new.md\n+n\n*** End Patch"


def codex() -> list[Record]:
    """Every kind of record that the format's table names."""
    shell = item("local_shell_call", call_id="c3", action={"type": "exec", "command": ["bash", "-lc", "ls"]})
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "mend it"}]}
    return [
        {"type": "session_meta", "timestamp": "2026-01-02T03:04:05Z", "payload": {"id": "s2", "cwd": ROOT}},
        event("task_started", turn_id="t"),
        {"type": "turn_context", "payload": {"model": "gpt-5.5"}},
        said("developer", "rules"), said("system", "more rules"), said("user", "# AGENTS.md"),
        said("user", "mend it"), event("user_message", message="mend it"),
        item("reasoning", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="xyz"),
        said("assistant", "On it."), event("agent_message", message="On it."), event("agent_reasoning", text="hm"),
        call("c1", cmd="make", workdir=ROOT), call("c2", cmd="true"),
        output("c2", "Process exited with code 0\nOutput:\n"),
        output("c1", "Process exited with code 2\nOutput:\nmake: error"),
        counted(1_000, 50, 1_050), counted(1_000, 50, 1_050),
        item("custom_tool_call", call_id="c4", name="apply_patch", input=PATCH), shell,
        item("tool_search_call", call_id="c5", arguments={"query": "q"}), item("web_search_call", status="completed"),
        output("c4", "Exit code: 0\nSuccess", "custom_tool_call_output"),
        output("c3", {"content": "a.py", "success": True}),
        item("tool_search_output", call_id="c5", tools=[{"name": "t"}]),
        event("patch_apply_end"), event("exec_command_end"), event("mcp_tool_call_end"), counted(1_200, 60, 2_310),
        {"type": "compacted", "payload": {"message": "So far.", "replacement_history": [kept, {"type": "compaction"}]}},
        event("context_compacted"),
        call("c6", cmd="sleep 9"), event("turn_aborted", reason="interrupted"),
        said("user", "mend it"), said("assistant", "Done."), counted(900, 5, 3_215), event("task_complete"),
    ]  # fmt: skip


# --- pi ---


def pi_message(role: str, content: Any, **fields: Any) -> Record:
    inner = {"role": role, "content": content, **fields}
    return {"type": "message", "timestamp": "2026-01-02T03:04:05.000Z", "message": inner}


def pi_answer(stop: str, *blocks: Record, prompt: int = 900) -> Record:
    usage = {"input": prompt, "output": 20 if prompt else 0, "cacheRead": 0, "cacheWrite": 0}
    about = {"provider": "anthropic", "model": "claude-opus-4-5", "usage": usage}
    return pi_message("assistant", list(blocks), stopReason=stop, **about)


def pi_call(call_id: str, name: str, **given: Any) -> Record:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": given}


def pi() -> list[Record]:
    """Every kind of record that the format's table names."""
    ran = {"command": "ls", "output": "a.py", "exitCode": 0}
    thinking = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}
    return [
        {"type": "session", "id": "s3", "cwd": ROOT, "modelId": "claude-opus-4-5"},
        {"type": "thinking_level_change", "thinkingLevel": "off"},
        pi_message("bashExecution", None, **ran),
        pi_message("user", [text("mend it"), {"type": "image", "data": PICTURE, "mimeType": "image/png"}]),
        pi_answer("toolUse", thinking, pi_call("c1", "bash", command="x")),
        pi_message("toolResult", [text("Command exited with code 3")], toolCallId="c1", isError=True),
        pi_answer("aborted", text("I wa"), pi_call("c2", "edit", path="a.py")),
        pi_message("user", [text("go on")]),
        pi_answer("aborted", prompt=0),
        pi_message("user", "please"),
        pi_answer("toolUse", pi_call("c3", "write", path=f"{ROOT}/b.py", content="y")),
        pi_message("toolResult", [text("ok")], toolCallId="c3"),
        {"type": "compaction", "summary": "So far.", "firstKeptEntryIndex": 10, "tokensBefore": 4_000},
        {"type": "model_change", "provider": "anthropic", "modelId": "claude-sonnet-4-5"},
        pi_answer("stop", text("Done.")),
    ]  # fmt: skip
