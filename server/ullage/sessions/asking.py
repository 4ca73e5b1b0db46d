"""Who says yes: every call that may change something is decided here, and bound to what was seen when it was.

Invariant: what a person allowed is what runs. The answer names the intent it was given for; where files have changed
since, nothing is done and the person is asked again, with what would be done now.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ullage.core.errors import NotAsApproved
from ullage.core.inputs import Allowed, Decision, Denied, Waiting
from ullage.core.messages import ToolCall
from ullage.core.ports import Intent, Tell, ToolOutcome, Tools, ToolSpec
from ullage.core.state import Facts
from ullage.sessions.permissions import decide, why_careful
from ullage.sessions.ports import Ask, Question
from ullage.workspace.entries import RootIdentity

_log = logging.getLogger(__name__)


class Approvals:
    """The decisions of one session, which `here` says stands on which folder. `specs` gives the tools there are."""

    def __init__(
        self,
        tools: Tools,
        specs: Callable[[], Mapping[str, ToolSpec]],
        ask: Ask | None,
        here: RootIdentity | None,
        home: Path,
    ) -> None:
        self._tools, self._specs, self._ask, self._here = tools, specs, ask, here
        self._home = "" if here is None or not home.is_relative_to(here.real) else str(home.relative_to(here.real))
        self._asked: dict[str, Intent] = {}
        """What calls that wait, or were allowed by a person, would do."""

    async def decide(self, calls: Sequence[ToolCall], facts: Facts) -> tuple[Decision, ...]:
        """Decide every call of a step before any runs. An unknown tool is allowed: running it only gives an error."""
        self._asked.clear()
        return tuple([await self._decide(call, facts) for call in calls])

    async def _decide(self, call: ToolCall, facts: Facts) -> Decision:
        spec = self._specs().get(call.name)
        if spec is None or not spec.changes:
            return Allowed(call.call_id)
        mode = facts.config.permission_mode
        intent = _NOT_LOOKED_AT if mode == "plan" else await self._intend(call)
        # Grants were given for the folder that stood there then, whatever stands there now.
        same = self._here is not None and (self._here.device, self._here.inode) == (facts.device, facts.inode)
        decision = decide(call, intent, mode, facts.grants if same else (), self._home)
        if isinstance(decision, Waiting) and isinstance(intent, Intent):
            self._asked[call.call_id] = intent
        return decision

    async def _intend(self, call: ToolCall) -> Intent | ToolOutcome:
        try:
            return await self._tools.intend(call.name, call.arguments)
        except Exception:
            _log.exception("it could not be found out what %s would do", call.name)
            return ToolOutcome("what it would do could not be found out.", is_error=True)

    async def ask(self, session_id: str, call: ToolCall) -> Allowed | Denied:
        """A person's word on a call that waits. No word means no."""
        if self._ask is None:
            return Denied(call.call_id, "nobody can be asked for permission here.")
        intent, spec = self._asked[call.call_id], self._specs().get(call.name)
        if spec is None:
            return Denied(call.call_id, "the tool is not there any more.")
        careful = next((why for path in intent.paths if (why := why_careful(path, self._home))), None)
        root = "" if self._here is None else self._here.real
        try:
            answer = await self._ask(Question(session_id, call, spec, intent, root, careful))
        except Exception:
            _log.exception("asking for permission failed")
            return Denied(call.call_id, "the question for permission could not be answered.")
        if isinstance(answer, Allowed) and careful is not None:
            return Allowed(answer.call_id)  # no grant covers what is always asked for
        return answer

    async def run(self, session_id: str, call: ToolCall, tell: Tell) -> ToolOutcome:
        """Run a call that was allowed; one that would do something else by now is asked for once more.

        Raises:
            UllageError: as the tool says.
        """
        while True:
            seen = self._asked.get(call.call_id)
            try:
                return await self._tools.run(call.name, call.arguments, tell, seen.sha256 if seen else None)
            except NotAsApproved:
                if (refusal := await self._ask_again(session_id, call)) is not None:
                    return refusal

    async def _ask_again(self, session_id: str, call: ToolCall) -> ToolOutcome | None:
        intent = await self._intend(call)
        if isinstance(intent, ToolOutcome):
            return intent
        self._asked[call.call_id] = intent
        answer = await self.ask(session_id, call)
        return ToolOutcome(f"Not run: {answer.reason}", is_error=True) if isinstance(answer, Denied) else None


_NOT_LOOKED_AT = ToolOutcome("", is_error=True)
"""In plan mode nothing is even looked at."""
