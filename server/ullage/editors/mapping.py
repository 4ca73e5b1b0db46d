"""From what a session says to what stands on the wire: pure functions, one for each payload.

Rule: every `Shown` kind has its payload (the match is exhaustive) and nothing else can become a `SessionUpdate`. Tool
text is cut to `update_bytes` for an update, all of its calls or results together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar, assert_never

from ullage.core.context import CompactionReport, Pin
from ullage.core.errors import ErrorReport
from ullage.core.events import (
    DamageAccepted,
    LogRepaired,
    Parent,
    SessionConfigured,
    SessionCreated,
    SessionForked,
    SessionRenamed,
)
from ullage.core.messages import Image, Message, Reasoning, ToolCall, ToolResult, Usage
from ullage.core.state import Config, Totals
from ullage.core.views import (
    Shown,
    ShownAnswer,
    ShownCompaction,
    ShownCompactionFailure,
    ShownInstructions,
    ShownOmission,
    ShownPin,
    ShownPinGone,
    ShownPrompt,
    ShownPromptGone,
    ShownQueue,
    ShownRedo,
    ShownRepair,
    ShownResult,
    ShownRewind,
    ShownSession,
    ShownSteer,
    ShownTurnEnd,
    ShownTurnStart,
    ShownWhat,
)
from ullage.editors import payloads as base
from ullage.editors import payloads_context as context
from ullage.editors import payloads_session as session
from ullage.editors import payloads_update as update
from ullage.editors.limits import Limits
from ullage.sessions.notices import CompactionAnswer, Delta, Retried, RewindAnswer, TurnOutcome

if TYPE_CHECKING:
    from ullage.sessions.actor import SessionActor
    from ullage.sessions.inspection import CompactionPreview
    from ullage.storage.index import SessionSummary

P = TypeVar("P", bound=base.Payload)

_LIMITS = Limits()


# --- updates ---


def update_payload(session_id: str, shown: Shown, limits: Limits = _LIMITS) -> update.SessionUpdate:
    """A durable update."""
    what = _durable(shown.what, limits)
    return update.SessionUpdate(session_id=session_id, seq=shown.seq, at=shown.at, update=what)


def delta_payload(session_id: str, delta: Delta) -> update.SessionUpdate:
    """A piece of what is being streamed."""
    what = update.DeltaUpdate(
        of=delta.kind,
        message_id=delta.message_id,
        call_id=delta.call_id,
        after_seq=delta.after_seq,
        offset=delta.offset,
        text=delta.text,
    )
    return update.SessionUpdate(session_id=session_id, seq=None, at=None, update=what)


def retry_payload(session_id: str, tried: Retried) -> update.SessionUpdate:
    """A call of the model that is made again."""
    what = update.RetryingUpdate(
        message_id=tried.message_id,
        after_seq=tried.after_seq,
        attempt=tried.attempt,
        most=tried.most,
        wait_ms=tried.wait_ms,
        error=_error(tried.error),
    )
    return update.SessionUpdate(session_id=session_id, seq=None, at=None, update=what)


def _durable(what: ShownWhat, limits: Limits) -> update.DurableUpdate:
    match what:
        case ShownPrompt():
            return _prompt(what)
        case ShownPromptGone(turn_id):
            return update.PromptRemovedUpdate(turn_id=turn_id)
        case ShownQueue(held):
            return update.QueueUpdate(held=held)
        case ShownTurnStart(turn_id):
            return update.TurnStartedUpdate(turn_id=turn_id)
        case ShownSteer(turn_id, steer_id):
            return update.SteerEnteredUpdate(turn_id=turn_id, steer_id=steer_id)
        case ShownAnswer():
            return _answer(what, limits)
        case ShownResult(message):
            return _result(message, limits)
        case ShownTurnEnd(turn_id, stop, error):
            return update.TurnEndedUpdate(turn_id=turn_id, stop=stop, error=error_payload(error))
        case ShownCompaction(report, ledger):
            return update.CompactedUpdate(reason=report.reason, report=report_payload(report), ledger=ledger)
        case ShownCompactionFailure(reason, error):
            return update.CompactionFailedUpdate(reason=reason, error=_error(error))
        case ShownPin(pin):
            return update.PinnedUpdate(pin_id=pin.pin_id, message_id=pinned_message(pin), role=pin.role, text=pin.text)
        case ShownPinGone(pin_id):
            return update.UnpinnedUpdate(pin_id=pin_id)
        case ShownOmission(seqs, reason, tokens):
            return update.OmissionUpdate(seqs=seqs, reason=reason, tokens=tokens)
        case ShownInstructions(path, tokens, note):
            return update.InstructionsUpdate(path=path, tokens=tokens, note=note)
        case ShownRewind(turn_id, before, turns):
            return update.RewoundUpdate(turn_id=turn_id, before_seq=before, turns=turns)
        case ShownRedo(rewind, turns):
            return update.RedoneUpdate(rewind_seq=rewind, turns=turns)
        case ShownSession(event):
            return _session(event)
        case ShownRepair(event):
            return _repair(event)
        case _:
            assert_never(what)


def _prompt(shown: ShownPrompt) -> update.PromptUpdate:
    message = shown.message
    return update.PromptUpdate(
        turn_id=message.turn_id,
        message_id=message.message_id,
        text=message.text,
        images=_images(part for part in message.parts if isinstance(part, Image)),
        mode=shown.mode,
    )


def _answer(shown: ShownAnswer, limits: Limits) -> update.AnswerUpdate:
    message = shown.message
    return update.AnswerUpdate(
        turn_id=message.turn_id,
        message_id=message.message_id,
        text=message.text,
        reasoning="\n".join(part.text for part in message.parts if isinstance(part, Reasoning) and part.text),
        calls=_calls(message.calls, limits),
        usage=_usage(shown.usage),
        stop=shown.stop,
        model=shown.model,
    )


def _calls(calls: Sequence[ToolCall], limits: Limits) -> tuple[update.ToolCallPayload, ...]:
    return tuple(
        update.ToolCallPayload(call_id=call.call_id, name=call.name, arguments=text, arguments_bytes=size)
        for call, (text, size) in zip(calls, _cut([call.arguments for call in calls], limits), strict=True)
    )


def _result(message: Message, limits: Limits) -> update.ToolResultUpdate:
    results = message.results
    pieces = _cut([result.text for result in results], limits)
    return update.ToolResultUpdate(
        turn_id=message.turn_id,
        message_id=message.message_id,
        results=tuple(_tool_result(result, *piece) for result, piece in zip(results, pieces, strict=True)),
    )


def _tool_result(result: ToolResult, text: str, size: int) -> update.ToolResultPayload:
    facts = result.facts
    return update.ToolResultPayload(
        call_id=result.call_id,
        text=text,
        text_bytes=size,
        full=None if result.full is None else _mirror(update.BlobPayload, result.full),
        is_error=result.is_error,
        op=facts.op,
        paths=facts.paths,
        command=facts.command,
        exit_code=facts.exit_code,
        detail=facts.detail,
        images=_images(result.images),
    )


def _cut(texts: Sequence[str], limits: Limits) -> list[tuple[str, int]]:
    """Each text with its whole size in bytes; together they take the limit at most, the first ones first."""
    left, pieces = limits.update_bytes, []
    for text in texts:
        whole = text.encode("utf-8", "replace")
        kept = text if len(whole) <= left else whole[:left].decode("utf-8", "ignore")
        left -= min(len(whole), left)
        pieces.append((kept, len(whole)))
    return pieces


def pinned_message(pin: Pin) -> str | None:
    """The message that is pinned; None for a text that was typed."""
    return None if pin.typed else pin.pin_id


def _session(
    event: SessionCreated | SessionForked | SessionRenamed | SessionConfigured,
) -> update.CreatedUpdate | update.ForkedUpdate | update.RenamedUpdate | update.ConfiguredUpdate:
    match event:
        case SessionCreated():
            return update.CreatedUpdate(root=event.root, parent=_parent(event.parent))
        case SessionForked(parent):
            return update.ForkedUpdate(parent=_mirror(base.ParentPayload, parent))
        case SessionRenamed(title):
            return update.RenamedUpdate(title=title)
        case SessionConfigured():
            return update.ConfiguredUpdate(change=config_payload(event))
        case _:
            assert_never(event)


def _repair(event: LogRepaired | DamageAccepted) -> update.RepairedUpdate | update.DamageAcceptedUpdate:
    match event:
        case LogRepaired(offset, size, kept_as):
            return update.RepairedUpdate(offset=offset, size=size, kept_as=kept_as)
        case DamageAccepted(ranges):
            return update.DamageAcceptedUpdate(ranges=ranges)
        case _:
            assert_never(event)


# --- answers ---


def session_payload(actor: SessionActor) -> session.SessionPayload:
    """A session as it is now."""
    facts = actor.state.facts
    return session.SessionPayload(
        session_id=actor.session_id,
        root=actor.root,
        title=facts.title,
        parent=_parent(facts.parent),
        seq=actor.synced_seq,
        running_turn=None if facts.open_turn is None else facts.open_turn.turn_id,
        waiting_turns=tuple(prompt.turn_id for prompt in facts.queue),
        held=facts.held,
        read_only=actor.read_only,
        config=config_payload(facts.config),
        resume=_mirror(session.ResumePayload, actor.resuming()),
    )


def summary_payload(summary: SessionSummary) -> session.SummaryPayload:
    """A session in a list."""
    return _mirror(session.SummaryPayload, summary)


def prompt_payload(turn_id: str, outcome: TurnOutcome) -> session.PromptResult:
    """How a prompt ended."""
    return session.PromptResult(
        turn_id=turn_id,
        stop=outcome.stop,
        error=error_payload(outcome.error),
        totals=totals_payload(outcome.totals),
        timing=_mirror(session.TimingPayload, outcome.timing),
    )


def compact_payload(answer: CompactionAnswer) -> session.CompactResult:
    """How a compaction ended."""
    return session.CompactResult(
        outcome=answer.outcome,
        report=None if answer.report is None else report_payload(answer.report),
        error=error_payload(answer.error),
        preview=None,
    )


def preview_payload(preview: CompactionPreview) -> session.CompactResult:
    """What a compaction would do."""
    would = session.PreviewPayload(
        before=preview.before,
        after=preview.after,
        strategy=preview.strategy,
        messages=preview.messages,
        error=error_payload(preview.error),
    )
    return session.CompactResult(outcome=None, report=None, error=None, preview=would)


def rewind_payload(answer: RewindAnswer) -> session.RewindResult:
    """What a rewind or a redo did, or would do."""
    return session.RewindResult(
        seq=answer.seq,
        turns=answer.turns,
        before=answer.before,
        after=answer.after,
        written_files=answer.written,
    )


# --- shared values ---


def error_payload(error: ErrorReport | None) -> base.ErrorPayload | None:
    """An error, where there is one."""
    return None if error is None else _error(error)


def warning_payload(session_id: str, report: ErrorReport) -> context.WarningPayload:
    """Something to know."""
    return context.WarningPayload(session_id=session_id, warning=_error(report))


def _error(error: ErrorReport) -> base.ErrorPayload:
    return base.ErrorPayload(code=error.code, message=error.message, hint=error.hint, data=dict(error.data))


def report_payload(report: CompactionReport) -> base.ReportPayload:
    """What one compaction did."""
    return _mirror(base.ReportPayload, report)


def config_payload(config: Config | SessionConfigured) -> session.ConfigPayload:
    """Settings of a session, or a change of them."""
    return _mirror(session.ConfigPayload, config)


def _parent(parent: Parent | None) -> base.ParentPayload | None:
    return None if parent is None else _mirror(base.ParentPayload, parent)


def _usage(usage: Usage) -> base.UsagePayload:
    """Whatever a provider reported: what is no count is told as not reported."""
    counts = {name: getattr(usage, name) for name in base.UsagePayload.model_fields}
    return base.UsagePayload(**{name: count if type(count) is int else None for name, count in counts.items()})


def totals_payload(totals: Totals) -> base.TotalsPayload:
    """What was paid."""
    return _mirror(base.TotalsPayload, totals)


def _images(images: Iterable[Image]) -> tuple[update.ImagePayload, ...]:
    return tuple(_mirror(update.ImagePayload, image) for image in images)


def _mirror(model: type[P], value: object) -> P:
    """A payload whose fields are all called what they are called inside."""
    return model.model_validate(value, from_attributes=True)
