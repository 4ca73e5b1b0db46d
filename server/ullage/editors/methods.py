"""Every method of ours, once: what it takes, what it gives. The server registers them, the documentation lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.editors import payloads as base
from ullage.editors import payloads_context as context
from ullage.editors import payloads_session as session
from ullage.editors import payloads_update as update

PREFIX: Final = "ullage/"
"""Before the name of each on the wire."""


@dataclass(frozen=True, slots=True)
class Method:
    """A request of ours, with its prefix."""

    name: str
    params: type[base.Payload]
    result: type[base.Payload]
    does: str


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification of ours, with its prefix."""

    name: str
    params: type[base.Payload]
    does: str


@dataclass(frozen=True, slots=True)
class Command:
    """What any editor can call by `workspace/executeCommand`."""

    name: str
    does: str


def _method(name: str, params: type[base.Payload], result: type[base.Payload], does: str) -> Method:
    return Method(PREFIX + name, params, result, does)


SESSION_UPDATE: Final = PREFIX + "session/update"
OCCUPANCY: Final = PREFIX + "context/occupancy"
COMPACTION: Final = PREFIX + "context/compaction"
WARNING: Final = PREFIX + "session/warning"
PERMISSION: Final = PREFIX + "permission/request"
COMPACT_COMMAND: Final = "ullage.compact"
FORK_COMMAND: Final = "ullage.fork"

METHODS: Final = (
    _method("session/new", session.NewParams, session.SessionPayload, "Begin a session."),
    _method("session/list", session.ListParams, session.ListResult, "The sessions of a workspace."),
    _method("session/search", session.SearchParams, session.SearchResult, "Search what was said in a workspace."),
    _method(
        "session/open",
        session.OpenParams,
        session.SessionPayload,
        "Open a session. Before the answer come all durable updates from `fromSeq` on, then what is being streamed, "
        "whole so far; live updates follow: exactly what was missed, nothing twice.",
    ),
    _method(
        "session/prompt",
        session.PromptParams,
        session.PromptResult,
        "Prompt a session; answered when the prompt's own turn has ended, or when it entered a running turn. "
        "Cancelling the request cancels the turn, and is answered with -32800 once the turn has really ended.",
    ),
    _method("session/cancel", session.CancelParams, base.Done, "Cancel a turn, a waiting prompt, or whatever runs."),
    _method("session/compact", session.CompactParams, session.CompactResult, "Compact, or say what that would do."),
    _method("session/fork", session.ForkParams, session.SessionPayload, "Fork an open session; opens the fork."),
    _method(
        "session/pin",
        session.PinParams,
        session.PinResult,
        "Keep a message or a text in view, to the letter, through every compaction.",
    ),
    _method("session/unpin", session.UnpinParams, base.Done, "Take a pin back."),
    _method(
        "session/rewind",
        session.RewindParams,
        session.RewindResult,
        "Go back to just before a turn, while the session is idle, or say what that would do. Files stay as they are.",
    ),
    _method(
        "session/redo",
        session.SessionParams,
        session.RewindResult,
        "Undo the newest rewind, until a turn starts, a compaction ends or messages are left out.",
    ),
    _method(
        "session/leaveOut",
        session.LeaveOutParams,
        session.LeaveOutResult,
        "Leave messages out of what the model sees, or take them back. The transcript stays, and `recall` finds them.",
    ),
    _method("session/rename", session.RenameParams, base.Done, "Give a session a title."),
    _method("session/export", session.ExportParams, session.ExportResult, "The transcript of an open session."),
    _method("session/configure", session.ConfigureParams, base.Done, "Change settings, from the next step on."),
    _method("session/acceptDamage", session.SessionParams, base.Done, "Write on after damage that stays in the log."),
    _method("queue/edit", session.QueueEditParams, base.Done, "Replace a waiting prompt."),
    _method("queue/remove", session.QueueRemoveParams, base.Done, "Take a waiting prompt out of the queue."),
    _method("queue/resume", session.SessionParams, base.Done, "Let a held queue run again."),
    _method("context/inspect", session.SessionParams, context.InspectResult, "What fills the window."),
    _method(
        "auth/set",
        base.AuthParams,
        base.AuthPayload,
        "Give a provider's key, or take it back. It is never logged, stored, or passed to a tool.",
    ),
    _method("workspace/trust", base.TrustParams, base.RootPayload, "Trust a workspace, or no longer."),
)
"""Client to server."""

NOTIFICATIONS: Final = (
    Notification(SESSION_UPDATE, update.SessionUpdate, "Something happened in a session that the client opened."),
    Notification(OCCUPANCY, context.OccupancyPayload, "The one number changed."),
    Notification(WARNING, context.WarningPayload, "Something to know that stops nothing, such as a day's cap."),
    Notification(COMPACTION, context.CompactionPayload, "A compaction got further."),
)
"""Server to client."""

REQUESTS_TO_CLIENT: Final = (
    Method(PERMISSION, context.PermissionParams, context.PermissionResult, "Ask the person about one call."),
)
"""Server to client, to be answered."""

COMMANDS: Final = (
    Command(
        COMPACT_COMMAND,
        "Compact the session whose id is the argument; without one, the open session that wrote last. "
        "Answered at once; progress shows how it goes.",
    ),
    Command(
        FORK_COMMAND,
        "Fork the session whose id is the argument; without one, the open session that wrote last. "
        "Answered at once; progress shows how it goes, and the fork's updates follow.",
    ),
)
"""`workspace/executeCommand`."""
