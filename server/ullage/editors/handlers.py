"""Our methods: params are parsed once, here; what a session answers goes out as a payload.

A request that waits for a turn or a compaction can be cancelled: the turn is cancelled, waited for, and only then is
the request answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ullage.context.leaving import Named
from ullage.core.commands import CompactionOutcome
from ullage.core.errors import BadInput
from ullage.core.events import PromptMode, SessionConfigured, Stop
from ullage.core.messages import Part, Text
from ullage.editors import mapping, mapping_context
from ullage.editors import payloads as base
from ullage.editors import payloads_context as context
from ullage.editors import payloads_session as session
from ullage.editors.following import Following
from ullage.editors.limits import Limits
from ullage.editors.mapping_search import search_payload
from ullage.editors.methods import METHODS, PREFIX
from ullage.editors.protocol import Handler, Params
from ullage.editors.roots import Roots

if TYPE_CHECKING:
    from ullage.sessions.actor import SessionActor
    from ullage.sessions.host import Host

T = TypeVar("T")


class Handlers:
    """The methods of one client. `host` and `roots` are there from initialize on."""

    host: Host
    roots: Roots

    def __init__(self, following: Following, limits: Limits, new_id: Callable[[], str]) -> None:
        self._following = following
        self._limits = limits
        self._new_id = new_id

    def table(self) -> dict[str, Handler]:
        """Whole method name to handler."""
        params = {method.name: method.params for method in METHODS}
        handlers: dict[str, Callable[[Any], Awaitable[base.Payload]]] = {
            "session/new": self._new,
            "session/list": self._list,
            "session/search": self._search,
            "session/open": self._open,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/compact": self._compact,
            "session/fork": self._fork,
            "session/pin": self._pin,
            "session/unpin": self._unpin,
            "session/rewind": self._rewind,
            "session/redo": self._redo,
            "session/leaveOut": self._leave_out,
            "session/rename": self._rename,
            "session/export": self._export,
            "session/configure": self._configure,
            "session/acceptDamage": self._accept_damage,
            "queue/edit": self._edit_prompt,
            "queue/remove": self._remove_prompt,
            "queue/resume": self._resume_queue,
            "context/inspect": self._inspect,
            "auth/set": self._auth,
            "workspace/trust": self._trust,
        }
        return {PREFIX + name: _parsing(params[PREFIX + name], handle) for name, handle in handlers.items()}

    # --- sessions ---

    async def _new(self, params: session.NewParams) -> session.SessionPayload:
        root = self.roots.named(params.root)
        config = None if params.config is None else _change(params.config)
        return await self._followed(await self.host.new_session(root, title=params.title, config=config))

    async def _list(self, params: session.ListParams) -> session.ListResult:
        found = await asyncio.to_thread(self.host.list_sessions, self.roots.named(params.root))
        return session.ListResult(sessions=tuple(map(mapping.summary_payload, found)))

    async def _search(self, params: session.SearchParams) -> session.SearchResult:
        found = await self.host.search(self.roots.named(params.root), params.query, params.limit)
        return search_payload(found, self._limits)

    async def _open(self, params: session.OpenParams) -> session.SessionPayload:
        root = None if params.root is None else self.roots.named(params.root)
        actor = await self.host.open_session(params.session_id, root, read_only=params.read_only)
        return await self._followed(actor, params.from_seq)

    async def _fork(self, params: session.ForkParams) -> session.SessionPayload:
        return await self._followed(await self.host.fork(params.session_id, params.at_seq))

    async def _followed(self, actor: SessionActor, from_seq: int = 0) -> session.SessionPayload:
        await self._following.follow(actor, from_seq)
        return mapping.session_payload(actor)

    async def _rename(self, params: session.RenameParams) -> base.Done:
        await self.host.actor(params.session_id).rename(params.title)
        return base.Done()

    async def _pin(self, params: session.PinParams) -> session.PinResult:
        actor = self.host.actor(params.session_id)
        match params.message_id, params.text:
            case str(message_id), None:
                return session.PinResult(pin_id=await actor.pin_message(message_id))
            case None, str(text):
                return session.PinResult(pin_id=await actor.pin_text(text))
            case _:
                raise BadInput("A pin is a message or a text.", hint="Give one of the two.", code="bad_pin")

    async def _unpin(self, params: session.UnpinParams) -> base.Done:
        await self.host.actor(params.session_id).unpin(params.pin_id)
        return base.Done()

    async def _leave_out(self, params: session.LeaveOutParams) -> session.LeaveOutResult:
        named = Named(params.message_ids, params.seqs)
        left = await self.host.actor(params.session_id).leave_out(named, back=params.back)
        return session.LeaveOutResult(message_ids=left.message_ids, tokens=left.tokens)

    async def _configure(self, params: session.ConfigureParams) -> base.Done:
        await self.host.actor(params.session_id).configure(_change(params))
        return base.Done()

    async def _accept_damage(self, params: session.SessionParams) -> base.Done:
        await self.host.actor(params.session_id).accept_damage()
        return base.Done()

    async def _export(self, params: session.ExportParams) -> session.ExportResult:
        if params.format == "markdown":
            return session.ExportResult(text=await self.host.export(params.session_id))
        lines = [line async for line in self._lines(self.host.actor(params.session_id))]
        return session.ExportResult(text="".join(lines))

    async def _lines(self, actor: SessionActor) -> Any:
        """The updates of a session, one JSON object a line; nobody is kept waiting for a long one."""
        for number, shown in enumerate(actor.history(), 1):
            yield mapping.update_payload(actor.session_id, shown, self._limits).model_dump_json(by_alias=True) + "\n"
            if number % self._limits.replay_page == 0:
                await asyncio.sleep(0)

    # --- turns ---

    async def _prompt(self, params: session.PromptParams) -> session.PromptResult:
        actor, turn_id = self.host.actor(params.session_id), params.turn_id or self._new_id()
        work = actor.prompt(turn_id, _parts(params), PromptMode(params.mode))
        outcome, cancelled = await _to_the_end(work, lambda: actor.cancel(turn_id))
        if cancelled and outcome.stop is Stop.CANCELLED:
            raise asyncio.CancelledError
        return mapping.prompt_payload(turn_id, outcome)

    async def _cancel(self, params: session.CancelParams) -> base.Done:
        self.host.actor(params.session_id).cancel(params.turn_id)
        return base.Done()

    async def _compact(self, params: session.CompactParams) -> session.CompactResult:
        actor, ask_id = self.host.actor(params.session_id), self._new_id()
        if params.dry_run:
            return mapping.preview_payload(actor.dry_run(params.instructions))
        work = actor.compact(ask_id, params.instructions)
        answer, cancelled = await _to_the_end(work, lambda: actor.cancel(ask_id))
        if cancelled and answer.outcome is CompactionOutcome.CANCELLED:
            raise asyncio.CancelledError
        return mapping.compact_payload(answer)

    async def _rewind(self, params: session.RewindParams) -> session.RewindResult:
        actor, name = self.host.actor(params.session_id), params.turn_id or params.message_id
        if name is None:
            raise BadInput("No turn is named.", hint="Give turnId, or the messageId of a prompt.", code="unknown_turn")
        if params.dry_run:
            return mapping.rewind_payload(await actor.rewind_preview(name))
        return mapping.rewind_payload(await actor.rewind(self._new_id(), name))

    async def _redo(self, params: session.SessionParams) -> session.RewindResult:
        return mapping.rewind_payload(await self.host.actor(params.session_id).redo(self._new_id()))

    async def _edit_prompt(self, params: session.QueueEditParams) -> base.Done:
        await self.host.actor(params.session_id).edit_prompt(params.turn_id, _parts(params))
        return base.Done()

    async def _remove_prompt(self, params: session.QueueRemoveParams) -> base.Done:
        await self.host.actor(params.session_id).remove_prompt(params.turn_id)
        return base.Done()

    async def _resume_queue(self, params: session.SessionParams) -> base.Done:
        await self.host.actor(params.session_id).resume_queue()
        return base.Done()

    # --- the rest ---

    async def _inspect(self, params: session.SessionParams) -> context.InspectResult:
        """The number is told as well: the rank table may have made it better since it was last told."""
        actor = self.host.actor(params.session_id)
        self._following.tell_occupancy(actor)
        return mapping_context.inspect_payload(actor.inspect())

    async def _auth(self, params: base.AuthParams) -> base.AuthPayload:
        key = None if params.key is None else params.key.get_secret_value()
        source = await asyncio.to_thread(self.host.give_key, params.provider, key)
        return base.AuthPayload(provider=params.provider, source=source)

    async def _trust(self, params: base.TrustParams) -> base.RootPayload:
        root = self.roots.trust(params.root, params.trusted)
        return base.RootPayload(root=root, trusted=params.trusted)


def _parsing(model: type[base.Payload], handle: Callable[[Any], Awaitable[base.Payload]]) -> Handler:
    """A handler of raw params. A wrong type raises pydantic's error, which the protocol answers with -32602."""

    async def handler(params: Params) -> base.Payload:
        return await handle(model.model_validate(params))

    return handler


async def _to_the_end(work: Coroutine[Any, Any, T], cancel: Callable[[], None]) -> tuple[T, bool]:
    """The result of `work`, and whether its request was cancelled meanwhile: it is never left alone."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task), False
    except asyncio.CancelledError:
        if task.done():
            raise
        cancel()
        return await asyncio.shield(task), True


def _parts(content: session.PromptContent) -> tuple[Part, ...]:
    """What was said, as message parts: mentions follow as plain lines.

    Raises:
        BadInput: an image, or nothing at all.
    """
    if content.images:
        raise BadInput("Images are not supported yet.", hint="Send the text alone.", code="images_unsupported")
    text = "\n".join(_lines_of(content))
    if not text.strip():
        raise BadInput("The prompt is empty.", hint="Say something, or mention a file.", code="empty_prompt")
    return (Text(text),)


def _lines_of(content: session.PromptContent) -> Iterator[str]:
    if content.text.strip():
        yield content.text
    if content.mentions:
        yield "Mentioned files:"
        yield from (f"- {path}" for path in content.mentions)


def _change(change: session.ConfigChange) -> SessionConfigured:
    return SessionConfigured(**change.model_dump(include=set(session.ConfigChange.model_fields)))
