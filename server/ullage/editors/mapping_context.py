"""From what a session says of its window to what stands on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage.core.context import Occupancy
from ullage.core.messages import Op
from ullage.editors import payloads_context as context
from ullage.editors.mapping import error_payload, pinned_message, report_payload, totals_payload
from ullage.sessions.notices import Compacted, Occupied
from ullage.workspace.paths import shown

if TYPE_CHECKING:
    from ullage.sessions.inspection import Inspection
    from ullage.sessions.ports import Question


def occupancy_payload(session_id: str, notice: Occupied) -> context.OccupancyPayload:
    """The one number."""
    figures, spent = _figures(notice.occupancy), notice.turns + notice.summaries
    return context.OccupancyPayload(
        session_id=session_id,
        totals=totals_payload(notice.turns),
        cost=spent.cost,
        unpriced=spent.calls - spent.priced,
        **dict(figures),
    )


def _figures(occupancy: Occupancy) -> context.OccupancyFigures:
    budget = occupancy.budget
    return context.OccupancyFigures(
        used=occupancy.used,
        estimated=occupancy.estimated,
        source=occupancy.source,
        fixed=occupancy.fixed,
        hidden=occupancy.hidden,
        phase=occupancy.phase,
        window=budget.window,
        window_source=budget.window_source,
        reserve=budget.reserve,
        input_budget=budget.input_budget,
        handoff_line=budget.handoff_line,
        compaction_line=budget.compaction_line,
    )


def compaction_payload(session_id: str, notice: Compacted) -> context.CompactionPayload:
    """Where a compaction stands."""
    return context.CompactionPayload(
        session_id=session_id,
        status=notice.status,
        reason=notice.reason,
        profile=notice.profile,
        strategy=notice.strategy,
        report=None if notice.report is None else report_payload(notice.report),
        error=error_payload(notice.error),
    )


def inspect_payload(found: Inspection) -> context.InspectResult:
    """What fills the window."""
    return context.InspectResult(
        occupancy=_figures(found.occupancy),
        categories=tuple(context.CategoryPayload(name=name, tokens=tokens) for name, tokens in found.categories),
        biggest=tuple(
            context.BiggestPayload(seq=item.seq, message_id=item.message_id, category=item.category, tokens=item.tokens)
            for item in found.biggest
        ),
        checkpoints=tuple(
            context.CheckpointPayload(seq=each.seq, at=each.at, report=report_payload(each.report))
            for each in found.checkpoints
        ),
        pins=tuple(
            context.PinPayload(
                pin_id=pin.pin_id, message_id=pinned_message(pin), role=pin.role, text=pin.text, tokens=tokens
            )
            for pin, tokens in found.pins
        ),
        left_out=context.LeftOutPayload(message_ids=found.left_out[0], tokens=found.left_out[1]),
        turn_totals=totals_payload(found.turn_totals),
        summary_totals=totals_payload(found.summary_totals),
        handoff=found.handoff,
    )


def permission_params(question: Question) -> context.PermissionParams:
    """What a client is asked about a call."""
    intent, call = question.intent, question.call
    places = [f"{question.root}/{path}" for path in intent.paths] or [question.root]
    grant = "writing files that are not protected" if intent.op is Op.WRITE else "this command, to the letter"
    return context.PermissionParams(
        session_id=question.session_id,
        call_id=call.call_id,
        name=call.name,
        arguments=call.arguments,
        description=question.spec.description,
        shown=intent.shown,
        targets=tuple(shown(place) for place in places),
        sha256=intent.sha256,
        careful=question.careful,
        grant=None if question.careful else grant,
    )
