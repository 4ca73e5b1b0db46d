"""A neutral request: what a provider is asked, before any API's own JSON.

Built by `context.request` and nowhere else. Roles alternate, every call is closed, no block is empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.core.messages import Image, Opaque, Reasoning, Role, Text, ToolCall, ToolResult

Block = Text | Reasoning | Image | ToolCall | ToolResult | Opaque


@dataclass(frozen=True, slots=True)
class RequestMessage:
    """One side's turn to speak: user (with results first) or assistant. Never empty."""

    role: Role
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class RequestTool:
    """A tool as the model is told of it; `schema` is canonical JSON text, sorted, so that the prefix is stable."""

    name: str
    description: str
    schema: str


@dataclass(frozen=True, slots=True)
class Request:
    """What the model is asked. `max_output` in tokens; `tokens` is the occupancy this request was decided with."""

    model: str
    system: str
    tools: tuple[RequestTool, ...]
    messages: tuple[RequestMessage, ...]
    max_output: int
    tokens: int
