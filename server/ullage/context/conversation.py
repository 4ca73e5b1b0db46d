"""A conversation kept inside a window by the same engine as the server's sessions, without a server.

Invariant: there is no second engine. What is said becomes events, state is their fold, and occupancy, plan, compaction
and request are the functions that a session uses. Nothing here reads a clock, makes a call or touches a disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ullage.context.assembly import assemble
from ullage.context.compaction import Rejected, gate, plan, plan_step
from ullage.context.earlier import begin_again
from ullage.context.handoff import make_record
from ullage.context.occupancy import budget as divide
from ullage.context.occupancy import count_message, fixed_part, occupancy, request_tool
from ullage.context.pinning import find_message, pinning, unknown_message
from ullage.context.profiles.ullage import ULLAGE
from ullage.context.replacement import head_tokens
from ullage.context.request import Memo, build, orphan_note
from ullage.context.settle import ORIGIN, settled
from ullage.core.checkpoint import VERSION
from ullage.core.context import (
    CompactFirst,
    CompactionPlan,
    CompactionReport,
    HandoffFirst,
    Impossible,
    Occupancy,
    Omission,
    Phase,
    Pin,
    Proceed,
    Reason,
    Replacement,
    RestoredFile,
    StepPlan,
    Strategy,
)
from ullage.core.errors import ContextFailed, ErrorReport
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    Entry,
    Event,
    HandoffRecorded,
    ItemsOmitted,
    PinRemoved,
    PromptMode,
    PromptQueued,
    ResultReceived,
    SessionCreated,
    SteerEntered,
    StepStarted,
    Stop,
    TurnEnded,
    TurnStarted,
)
from ullage.core.messages import UNANSWERED, Message, Role, Text, ToolResult, Usage
from ullage.core.pins import message_pin, typed_pin
from ullage.core.ports import ModelCard, TokenCounter, ToolSpec
from ullage.core.reduce import reduce, resume
from ullage.core.requests import Request
from ullage.core.state import Facts, MessageItem, OpenTurn, State

_GOES_ON = "(The conversation goes on.)"
"""What opens a turn that nobody prompted."""
_OUTPUT = 8_192
"""Output tokens asked for where the window, and so the reserve, is not known."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did: the report that a session would log, and the replacement."""

    report: CompactionReport
    replacement: Replacement


class Conversation:
    """Give it every message in the order it is said, and ask it for the next request.

    `window` in tokens (None: unknown, then nothing is compacted unasked); `counter` counts tokens, for example
    `ullage.providers.tokens.load_counter()`; `output_cap` is the output reserve, in tokens.
    """

    def __init__(
        self,
        counter: TokenCounter,
        *,
        window: int | None = None,
        model: str = "",
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        output_cap: int | None = None,
    ) -> None:
        self._counter, self._system = counter, system
        self._card = ModelCard(model, window, "setting", output_cap)
        self._tools = tuple(request_tool(spec) for spec in sorted(tools, key=lambda spec: spec.name))
        self._fixed = fixed_part(system, self._tools, counter)
        self._budget = divide(window, "setting", output_cap)
        self._memo = Memo()
        self._seq, self._waiting = 0, list[str]()
        self.state = State()
        self._log(SessionCreated("conversation", "/", 0, 0))

    # --- what is said ---

    def add(self, message: Message, usage: Usage | None = None) -> None:
        """Take a message in. `usage` is what the provider reported for an assistant message.

        Whatever comes is taken: a call that nobody answered is closed when the assistant speaks again, a result that
        comes later than that becomes a note, and what a person says before the results are there follows them.
        """
        match message.role:
            case Role.USER:
                self._hear(message)
            case Role.ASSISTANT:
                self._answer(message, usage or Usage())
            case Role.TOOL:
                for result in message.results:
                    self._result(result)
                if rest := tuple(part for part in message.parts if not isinstance(part, ToolResult)):
                    self._hear(replace(message, role=Role.USER, parts=rest))

    def say(self, text: str) -> None:
        """What a person said."""
        self.add(Message("", Role.USER, (Text(text),), ""))

    def pin(self, text: str) -> str:
        """Keep a text in view, to the letter, through every compaction; the next request tells it. The pin's id.

        What is pinned already keeps the pin it has.

        Raises:
            BadInput: there is nothing in it, or it would pass a bound: no pin goes to make room.
        """
        return self._pin(typed_pin(text, self._seq))

    def pin_message(self, message_id: str) -> str:
        """The same for a message that is in view, which costs nothing until a compaction.

        Raises:
            BadInput: no such message, or as for `pin`.
        """
        found = find_message(self.state, message_id)
        if found is None:
            raise unknown_message()
        return self._pin(message_pin(*found))

    def unpin(self, pin_id: str) -> None:
        """Take a pin back; one that is not there is no error."""
        if any(pin.pin_id == pin_id for pin in self.state.facts.pins):
            self._log(PinRemoved(pin_id))

    def begin_with(self, replacement: Replacement, known: Facts) -> None:
        """Begin with what an earlier compaction left, and the facts in it. Only before anything is said."""
        tokens = head_tokens(replacement, self._counter)
        counted = replace(replacement, head_tokens=tokens)
        facts = replace(
            self.state.facts,
            files=known.files,
            commands=known.commands,
            newest_error=known.newest_error,
            records=replacement.records,
            pins=replacement.pins,
        )
        report = CompactionReport(Reason.MANUAL, Strategy.DETERMINISTIC, ULLAGE.name, 0, tokens, 0, 0)
        event = CheckpointCommitted(VERSION, facts.last_seq, facts.revision, facts.epoch, counted, report, facts)
        self.state = resume(Entry(self._seq, 0, event))
        self._seq += 1

    # --- the number, the plan, the request ---

    @property
    def occupancy(self) -> Occupancy:
        """Tokens that the next request will take, and its phase: the one number."""
        return occupancy(self.state, self._fixed.tokens, self._budget)

    @property
    def phase(self) -> Phase:
        return self.occupancy.phase

    def plan(self) -> StepPlan:
        """What comes before the next provider call."""
        return plan_step(self.state, self._fixed, self._budget, self._counter, too_large=self._too_large)

    def request(self, max_output: int | None = None) -> Request:
        """What to send next, valid whatever was said. `max_output` in tokens; the reserve without one.

        Raises:
            ContextFailed: nothing was said, or the next request can't be made to fit; the report says what to do.
        """
        self.prepare()
        turn = self._turn()
        now = self.occupancy
        built = build(
            self.state,
            self._system,
            self._tools,
            self._card,
            max_output or self._budget.reserve or _OUTPUT,
            now,
            self._memo,
        )
        if turn.pending == ():
            self._log(StepStarted(turn.turn_id, turn.step + 1, now))
        return built.request

    def prepare(self) -> list[Compacted]:
        """Prune, remind and compact as the plan says, until a request can be sent; what was compacted.

        Raises:
            ContextFailed: the next request can't be made to fit.
        """
        done: list[Compacted] = []
        while True:
            match self.plan():
                case HandoffFirst(now, tokens, omissions):
                    self._leave_out(omissions)
                    self._log(HandoffRecorded(make_record(f"conversation-{self._seq}", now, self._seq), tokens))
                case CompactFirst(_, reason):
                    done.append(self.compact(reason))
                case Impossible(_, error):
                    raise _failed(error)
                case Proceed(_, omissions):
                    self._leave_out(omissions)
                    return done

    def compact(
        self,
        reason: Reason = Reason.MANUAL,
        *,
        most: int | None = None,
        summary: str | None = None,
        files: Sequence[RestoredFile] = (),
        fence: str = "fence",
    ) -> Compacted:
        """Compact now. `most` caps the replacement, in tokens; only what is mandatory goes beyond it.

        `summary` is a model's ledger (without one the digest is it); `files` are beginnings of files to show again, and
        `fence` a random word that marks them as data.

        Raises:
            ContextFailed: there is nothing to gain, or what is mandatory does not fit the window.
        """
        self.end_if_done()
        planned = plan(
            self.state,
            reason,
            self.occupancy,
            self._fixed,
            ULLAGE,
            self._counter,
            most=most,
            has_summariser=summary is not None,
        )
        if isinstance(planned, ErrorReport):
            raise _failed(planned)
        made = assemble(planned, self.state, self._counter, ULLAGE, files, fence, summary)
        passed = gate(planned, self.state, made, self._fixed.tokens, self._budget)
        if isinstance(passed, Rejected):
            raise ContextFailed(
                f"The replacement was rejected: {passed.reason}.", code=passed.reason, tokens=made.tokens
            )
        return self._commit(planned, made, passed.after)

    def forget_window(self) -> None:
        """From now on the window is unknown: nothing but a cap limits what a compaction leaves."""
        self._budget = divide(None, "unknown")

    # --- events ---

    def _pin(self, wanted: Pin) -> str:
        pin, event = pinning(self.state, wanted, self._counter)
        if event is not None:
            self.end_if_done()
            self._log(event)
        return pin.pin_id

    def _commit(self, planned: CompactionPlan, made: Replacement, after: int) -> Compacted:
        sources = sum(isinstance(item, MessageItem) for item in self.state.items)
        kept = len(made.tail)
        files = tuple(file.path for file in made.files)
        report = CompactionReport(
            planned.reason,
            planned.strategy,
            planned.profile,
            planned.before,
            after,
            kept,
            max(0, sources - kept),
            files,
        )
        facts = self.state.facts
        self._log(CheckpointCommitted(VERSION, planned.source_seq, planned.revision, facts.epoch, made, report, facts))
        return Compacted(report, made)

    def _log(self, event: Event) -> None:
        self.state = reduce(self.state, Entry(self._seq, 0, event))
        self._seq += 1

    def _too_large(self, state: State) -> bool:
        now = occupancy(state, self._fixed.tokens, self._budget)
        return build(state, self._system, self._tools, self._card, 1, now, self._memo).too_large

    def _leave_out(self, omissions: Iterable[Omission]) -> None:
        for omission in omissions:
            self._log(ItemsOmitted(omission))

    def _turn(self) -> OpenTurn:
        """The open turn; one that nobody prompted is opened where there is none."""
        if self.state.facts.open_turn is None:
            self._prompt(Message("", Role.USER, (Text(_GOES_ON),), "", origin=ORIGIN))
        assert self.state.facts.open_turn is not None
        return self.state.facts.open_turn

    def _hear(self, message: Message) -> None:
        self.end_if_done()
        if self.state.facts.open_turn is None:
            self._prompt(message)
        else:
            self._waiting.append(self._queue(message, PromptMode.STEER))
            self._let_in()

    def _prompt(self, message: Message) -> None:
        self._log(TurnStarted(self._queue(message, PromptMode.QUEUE)))

    def _queue(self, message: Message, mode: PromptMode) -> str:
        turn_id = f"t{self._seq}"
        named = replace(message, message_id=f"{turn_id}/u", turn_id=turn_id)
        self._log(PromptQueued(named, mode, self._count(named), self._counter.encoding))
        return turn_id

    def _let_in(self) -> None:
        """Steering enters when no call is open."""
        turn = self.state.facts.open_turn
        while self._waiting and turn is not None and not turn.pending:
            self._log(SteerEntered(turn.turn_id, self._waiting.pop(0)))

    def _answer(self, message: Message, usage: Usage) -> None:
        self._close()
        turn = self._turn()
        if self.state.facts.sent is None:
            self._log(StepStarted(turn.turn_id, turn.step + 1, self.occupancy))
            turn = self._turn()
        named = replace(message, message_id=f"{turn.turn_id}/{turn.step}/a", turn_id=turn.turn_id)
        stop = "tool_use" if named.calls else "end_turn"
        tokens = self._count(named)
        answered = AnswerReceived(
            turn.turn_id, turn.step, named, tokens, self._counter.encoding, usage, stop, self._card.name
        )
        self._log(answered)

    def _close(self) -> None:
        """Close the calls that nobody answered."""
        turn = self.state.facts.open_turn
        for call_id in turn.pending if turn else ():
            self._result(ToolResult(call_id, UNANSWERED, is_error=True))

    def _result(self, result: ToolResult) -> None:
        turn = self.state.facts.open_turn
        if turn is None or result.call_id not in turn.pending:
            self._hear(Message("", Role.USER, (Text(orphan_note(result)),), "", origin=ORIGIN))
            return
        message = Message(f"{turn.turn_id}/{turn.step}/r{self._seq}", Role.TOOL, (result,), turn.turn_id)
        self._log(ResultReceived(turn.turn_id, turn.step, message, self._count(message), self._counter.encoding))
        self._let_in()

    def end_if_done(self) -> None:
        """A turn is over when its last answer asks for no tool."""
        turn, items = self.state.facts.open_turn, self.state.items
        newest = items[-1] if items else None
        answered = isinstance(newest, MessageItem) and newest.message.role is Role.ASSISTANT
        if turn is not None and not turn.pending and answered:
            self._log(TurnEnded(turn.turn_id, Stop.DONE))

    def _count(self, message: Message) -> int:
        return count_message(message, self._counter)


def conversation_of(messages: Iterable[Message], counter: TokenCounter, *, window: int | None = None) -> Conversation:
    """A conversation of any history, put in order; an earlier compaction's head in it is known again."""
    made, said = Conversation(counter, window=window), list(messages)
    if earlier := begin_again(said):
        replacement, facts, said = earlier
        made.begin_with(replacement, facts)
    for message in settled(said):
        made.add(message)
    return made


def _failed(error: ErrorReport) -> ContextFailed:
    return ContextFailed(error.message, hint=error.hint, code=error.code, **dict(error.data))
