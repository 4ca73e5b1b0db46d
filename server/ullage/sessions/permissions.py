"""Which calls may run. A tool that changes nothing runs in every mode; everything else is for a person to allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ullage.core.inputs import Allowed, Decision, Denied, Waiting
from ullage.core.messages import ToolCall
from ullage.core.ports import ToolSpec


def decide(calls: Sequence[ToolCall], specs: Mapping[str, ToolSpec], mode: str | None) -> tuple[Decision, ...]:
    """Decide every call of a step before any runs. An unknown tool is allowed: running it only gives an error."""
    return tuple(_decide(call, specs.get(call.name), mode) for call in calls)


def _decide(call: ToolCall, spec: ToolSpec | None, mode: str | None) -> Decision:
    if spec is None or not spec.changes:
        return Allowed(call.call_id)
    if mode == "plan":
        return Denied(call.call_id, "permission mode `plan` allows reading only.")
    return Waiting(call.call_id)
