"""The context engine of one session: `ullage.context` with this session's tools, model, window and counter put in.

Nothing here decides or writes; the same state gives the same answer. What it keeps are counts and rendered messages,
which change nothing but the time that things take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.context.assembly import assemble
from ullage.context.compaction import Accepted, gate, plan, plan_step
from ullage.context.handoff import make_record
from ullage.context.instructions import added, share
from ullage.context.limits import Limits as ContextLimits
from ullage.context.occupancy import (
    FixedPart,
    count_message,
    fixed_part,
    occupancy,
    request_tool,
    session_budget,
)
from ullage.context.profiles.profile import Profile
from ullage.context.profiles.ullage import ULLAGE
from ullage.context.pruning import cache_expired
from ullage.context.request import Built, Memo, build, images_of
from ullage.context.resuming import Resuming, resuming
from ullage.context.summary import LastRequest, summary_request
from ullage.context.toolresults import Fitted, fit_result
from ullage.core.breaker import may_ask_model
from ullage.core.checkpoint import VERSION
from ullage.core.commands import Assemble, CommitCheckpoint, PlanCompaction, Summarise
from ullage.core.context import (
    Budget,
    CompactionPlan,
    CompactionReport,
    HandoffFirst,
    Impossible,
    InstructionFile,
    Occupancy,
    Proceed,
    Replacement,
    RestoredFile,
    StepPlan,
    Strategy,
)
from ullage.core.errors import ErrorReport
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    Event,
    HandoffRecorded,
    InstructionsAdded,
    ItemsOmitted,
    PromptEdited,
    PromptQueued,
    ResultReceived,
    UsageBooked,
)
from ullage.core.messages import BlobRef, Message, ToolCall
from ullage.core.ports import ModelCard, Provider, Summariser, TokenCounter, Tools, ToolSpec
from ullage.core.requests import Request, RequestTool
from ullage.core.state import Config, InstructionsItem, MessageItem, State
from ullage.sessions.ports import Limits, Ports
from ullage.sessions.prompt import system_prompt
from ullage.sessions.spending import Spending


class Engine:
    """Made by the host, one a session."""

    def __init__(self, ports: Ports, tools: Tools, root: str) -> None:
        self._ports, self._tools = ports, tools
        self._system = system_prompt(root)
        self._profile: Profile = ULLAGE
        self._memo = Memo()
        self.spending = Spending(ports)
        self._fixed: tuple[object, FixedPart] | None = None
        self._written: tuple[tuple[ToolSpec, ...], tuple[RequestTool, ...]] | None = None

    # --- what the session works with ---

    @property
    def limits(self) -> Limits:
        return self._ports.limits

    @property
    def profile(self) -> str:
        return self._profile.name

    @property
    def counter(self) -> TokenCounter:
        return self._ports.counter()

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """The tools there are right now; none in a root that is not trusted."""
        return {spec.name: spec for spec in self._tools.specs()}

    def changes(self, call: ToolCall) -> bool:
        """Whether running this call may change something."""
        spec = self.specs.get(call.name)
        return spec is not None and spec.changes

    def provider(self, state: State) -> Provider:
        """What answers, for the session's configuration."""
        return self._ports.provider(state.facts.config)

    def summariser(self, state: State) -> Summariser | None:
        return self._ports.summariser(state.facts.config)

    def _card(self, state: State) -> ModelCard:
        return self.provider(state).card

    def _budget(self, state: State) -> Budget:
        return session_budget(state.facts.config, self._card(state), self._ports.price_tier)

    def _request_tools(self) -> tuple[RequestTool, ...]:
        """Written once for a set of tools."""
        specs = tuple(self._tools.specs())
        if self._written is None or self._written[0] != specs:
            self._written = (specs, tuple(map(request_tool, specs)))
        return self._written[1]

    def _fixed_part(self) -> FixedPart:
        """Counted once for a set of tools and an encoding."""
        key = (tools := self._request_tools(), self.counter.encoding)
        if self._fixed is None or self._fixed[0] != key:
            self._fixed = (key, fixed_part(self._system, tools, self.counter))
        return self._fixed[1]

    def fixed_parts(self) -> tuple[tuple[str, int], ...]:
        """Names and tokens of what every request carries."""
        return self._fixed_part().parts

    # --- the number, the step and its request ---

    def occupancy(self, state: State) -> Occupancy:
        """The one number."""
        return occupancy(state, self._fixed_part().tokens, self._budget(state), self._learned_for(state))

    def resuming(self, state: State) -> Resuming:
        """What going on from here begins with."""
        price, at = self._ports.price(self._card(state).name), self._ports.clock()
        return resuming(state.facts, self.occupancy(state).used, at, price, self.limits.context)

    def plan_step(self, state: State) -> StepPlan:
        """What comes before the next provider call."""
        planned = plan_step(
            state,
            self._fixed_part(),
            self._budget(state),
            self.counter,
            model=self._learned_for(state),
            too_large=lambda pruned: self.build(pruned, self.occupancy(pruned)).too_large,
            pruning=self._profile.pruning,
            cold=cache_expired(state.facts, self._ports.clock(), self._cache_ms(state)),
            limits=self.limits.context,
        )
        if not isinstance(planned, Proceed):
            return planned
        now = planned.occupancy
        refused = self.spending.refusal(state, now.used, _most_output(now), self._card(state).name)
        return planned if refused is None else Impossible(now, refused)

    def _cache_ms(self, state: State) -> int | None:
        """How long the provider's cache lasts: as the profile has it, as it was set, as the provider says."""
        stated = self.limits.context.cache_lifetime_ms or self._card(state).cache_ms
        return self._profile.pruning.cache_ms or stated

    def _learned_for(self, state: State) -> str | None:
        """The model whose learned ratio corrects estimates."""
        return self._card(state).name if self._profile.learns else None

    def request(self, state: State, now: Occupancy) -> Request:
        """The request of the step that was decided with `now`."""
        return self.build(state, now).request

    def build(self, state: State, now: Occupancy) -> Built:
        """That request with what had to be left out of it."""
        reserve = _most_output(now)
        tools, limits = self._request_tools(), self.limits.context
        return build(state, self._system, tools, self._card(state), reserve, now, self._memo, limits)

    def images(self, state: State) -> tuple[BlobRef, ...]:
        """Images that the next request would hold; their bytes must be there."""
        return images_of(state, self._card(state), self._memo)

    def handoff(self, planned: HandoffFirst) -> tuple[Event, ...]:
        """What is left out, and the record of this epoch's handoff."""
        at = self._ports.clock()
        record = HandoffRecorded(make_record(self._ports.new_id(at), planned.occupancy, at), planned.tokens)
        return (*map(ItemsOmitted, planned.omissions), record)

    def instructions(self, state: State, files: Sequence[InstructionFile]) -> tuple[InstructionsAdded, ...]:
        """What the model must be told of instruction files before the next step."""
        return added(state, files, self._budget(state), self.counter, self.limits.context)

    # --- counting ---

    def stamp(self, event: Event) -> Event:
        """The event with its message counted and its call priced; the machine leaves that to us."""
        match event:
            case AnswerReceived() if not event.encoding:
                return replace(event, **self._counted(event.message), cost=self.spending.cost(event.usage, event.model))
            case PromptQueued() | PromptEdited() | ResultReceived() if not event.encoding:
                return replace(event, **self._counted(event.message))
            case UsageBooked() if event.cost is None:
                return replace(event, cost=self.spending.cost(event.usage, event.model))
            case _:
                return event

    def _counted(self, message: Message) -> dict[str, Any]:
        counter = self.counter
        return {"tokens": count_message(message, counter), "encoding": counter.encoding}

    def recount(self, state: State) -> tuple[tuple[str, int], ...]:
        """New counts of messages, waiting ones too, that were counted by another encoding than today's."""
        counter = self.counter
        counted = [
            (item.message, item.encoding) for item in state.items if isinstance(item, MessageItem | InstructionsItem)
        ]
        counted += [(waiting.message, waiting.encoding) for waiting in state.facts.queue]
        stale = (message for message, encoding in counted if encoding not in ("", counter.encoding))
        return tuple((message.message_id, count_message(message, counter)) for message in stale)

    def results_budget(self, state: State) -> ResultsBudget:
        """What the results of the coming step may take."""
        return ResultsBudget(self._budget(state).input_budget, self.counter, self.limits.context)

    # --- compaction ---

    def plan_compaction(self, state: State, command: PlanCompaction) -> CompactionPlan | ErrorReport:
        now, at = self.occupancy(state), self._ports.clock()
        return plan(
            state,
            command.reason,
            now,
            self._fixed_part(),
            self._profile,
            self.counter,
            instructions=command.instructions,
            limit=command.limit,
            has_summariser=self.summariser(state) is not None,
            may_ask=may_ask_model(state.facts.breaker, command.reason, now, at, self.limits.core),
            limits=self.limits.context,
        )

    def summary_request(self, state: State, command: Summarise) -> Request | None:
        """The request of one sample; None where no smaller one exists.

        Another model than the one that answers has no cache to align with, and a window of its own.
        """
        summariser, card, budget = self.summariser(state), self._card(state), self._budget(state)
        own = summariser is None or summariser.card.name == card.name
        if summariser is not None and not own:
            card = summariser.card
            budget = session_budget(Config(), card) if card.window is not None else budget
        last = LastRequest(self._system, self._request_tools(), self.occupancy(state))
        return summary_request(
            command.plan,
            state,
            budget,
            card.name,
            self.counter,
            self.limits.context,
            last=last if own and self._profile.aligned_summary else None,
            shrinks=command.shrinks,
            most_output=command.most_tokens,
        )

    def assemble(
        self, state: State, command: Assemble, files: tuple[RestoredFile, ...], fence: str
    ) -> tuple[Replacement, CompactionReport] | ErrorReport:
        """Make and gate a replacement; an error says why it must not be used."""
        planned, fixed = command.plan, self._fixed_part().tokens
        replacement = assemble(
            planned,
            state,
            self.counter,
            self._profile,
            files,
            fence,
            command.summary,
            self.limits.context,
            instructions=share(self._budget(state), self.limits.context),
        )
        passed = gate(planned, state, replacement, fixed, self._budget(state))
        if not isinstance(passed, Accepted):
            return _rejected(passed.reason, replacement.tokens, planned.target)
        sources = sum(isinstance(item, MessageItem) for item in state.items)
        report = CompactionReport(
            planned.reason,
            _strategy(command),
            planned.profile,
            planned.before,
            passed.after,
            len(replacement.tail),
            max(0, sources - len(replacement.tail)),
            tuple(file.path for file in replacement.files),
            command.samples,
            command.failure,
        )
        return replacement, report

    def checkpoint(self, state: State, command: CommitCheckpoint) -> CheckpointCommitted:
        """The checkpoint event; the state it carries is the one just before it."""
        planned, facts = command.plan, state.facts
        return CheckpointCommitted(
            VERSION,
            planned.source_seq,
            planned.revision,
            facts.epoch,
            command.replacement,
            command.report,
            facts,
        )


_UNKNOWN_RESERVE = 8_192
"""Output tokens asked for where the window, and so the reserve, is not known."""


def _most_output(now: Occupancy) -> int:
    return now.budget.reserve or _UNKNOWN_RESERVE


def _strategy(command: Assemble) -> Strategy:
    if command.summary is not None:
        return Strategy.MODEL
    return Strategy.FALLBACK if command.failure is not None else Strategy.DETERMINISTIC


def _rejected(reason: str, tokens: int, target: int) -> ErrorReport:
    return ErrorReport(
        reason,
        f"A replacement of {tokens:,} tokens was rejected; at most {target:,} may be used.",
        "Nothing changed. Compact again, or choose a model with a larger window.",
        (("tokens", tokens), ("target", target)),
    )


@dataclass(slots=True)
class ResultsBudget:
    """What one step's results may still take, shared by its calls. Tokens."""

    input_budget: int
    counter: TokenCounter
    limits: ContextLimits
    spent: int = 0

    def fit(self, text: str, sha256: str | None) -> Fitted:
        """Fit one result and charge it; without a hash its full text is stored nowhere."""
        fitted = fit_result(text, sha256, self.input_budget, self.spent, self.counter, self.limits)
        self.spent += fitted.tokens
        return fitted
