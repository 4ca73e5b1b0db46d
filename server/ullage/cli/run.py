"""`ullage run DIR PROMPT`: one turn without a terminal, in this process.

Invariant: the turn is written down before the command ends, however it ends; the exit code tells how. The workspace is
trusted, nobody is asked, and what may be changed in it is `--permission`'s to say (`cli.asking`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ullage import settings
from ullage.cli import opening, serve
from ullage.cli.asking import add_permission, ask_nobody, changes, permitted
from ullage.cli.bills import resumed
from ullage.cli.output import Out
from ullage.core.errors import BadInput, SessionUnavailable
from ullage.core.events import PromptMode, SessionConfigured, Stop
from ullage.core.messages import Text
from ullage.providers.keys import Keys
from ullage.storage.ids import new_session_id

if TYPE_CHECKING:
    from ullage.cli.telling import JsonLines, Words
    from ullage.providers.choosing import Providers
    from ullage.sessions.actor import SessionActor
    from ullage.sessions.host import Host
    from ullage.sessions.notices import TurnOutcome

FAILED: Final = 1
NOT_UNDERSTOOD: Final = 2
CANCELLED: Final = 3
INTERRUPTED: Final = 130
EXITS: Final = {Stop.DONE: 0, Stop.FAILED: FAILED, Stop.INTERRUPTED: FAILED, Stop.CANCELLED: CANCELLED, Stop.LENGTH: 4}
"""How a turn ended to the exit code."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The workspace, the prompt, how to tell, and every setting."""
    parser.epilog = (
        "Exit code: 0 done, 1 failed, 2 not understood or nothing that could answer, 3 cancelled "
        "(130 by Ctrl-C), 4 the answer reached its length."
    )
    parser.add_argument("folder", metavar="DIR", help="the workspace")
    parser.add_argument("prompt", metavar="PROMPT", help="what to ask; - reads it from standard input")
    parser.add_argument("--json", action="store_true", help="print what a client hears, one JSON object a line")
    parser.add_argument("--session", metavar="ID", help="go on with this session of the workspace")
    add_permission(parser, "plan", "edits")
    settings.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run one turn; the exit code is one of `EXITS`, 2 for what was not understood, or 130 after Ctrl-C."""
    out, about = Out(sys.stdout), Out(sys.stderr)
    try:
        folder, text = opening.folder(args.folder), _prompt(args.prompt)
        keys = serve.take_keys()
        chosen: list[Providers] = []
        host = serve.make_host(args, os.environ, keys, chosen.append)({})
        return asyncio.run(_Run(host, chosen[0], keys, out, about, json=args.json).run(args, folder, text))
    except BadInput as error:
        about.error(error.report)
        return NOT_UNDERSTOOD
    except SessionUnavailable as error:
        about.error(error.report)
        return NOT_UNDERSTOOD if error.report.code in ("unknown_session", "wrong_root") else FAILED


def _prompt(text: str) -> str:
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not text.strip():
        raise BadInput("The prompt is empty.", hint="Say what you want to know, in quotes.", code="empty_prompt")
    return text.encode("utf-8", "replace").decode()


class _Run:
    def __init__(self, host: Host, providers: Providers, keys: Keys, out: Out, about: Out, *, json: bool) -> None:
        from ullage.cli.telling import JsonLines, Words
        from ullage.editors.following import Following
        from ullage.editors.limits import Limits

        self._host, self._providers, self._keys = host, providers, keys
        self._out, self._about = out, about
        self._teller: Words | JsonLines = JsonLines(out) if json else Words(out, about)
        self._following = Following(self._tell, Limits())
        self._interrupted = False

    def _tell(self, method: str, params: dict[str, Any], coalesce: object = None) -> None:
        self._teller.notice(method, params)

    async def run(self, args: argparse.Namespace, folder: Path, text: str) -> int:
        host = self._host
        host.listener = self._following.hear
        if changes(args):
            host.ask = ask_nobody
        try:
            await opening.load_ranks(self._about)
            root = host.add_root(str(folder), trusted=True)
            actor = await self._session(args, root)
            outcome = await self._turn(actor, text)
        finally:
            await host.close()
            await self._providers.close()
        if outcome.error is not None:
            self._about.error(outcome.error)
        if self._interrupted and outcome.stop is Stop.CANCELLED:
            return INTERRUPTED
        return FAILED if outcome.stop is None else EXITS[outcome.stop]

    async def _session(self, args: argparse.Namespace, root: str) -> SessionActor:
        if args.session is None:
            # Asked before there is a session: one that nothing can answer is of no use to anybody.
            await opening.check_answers(args, self._keys, settings.load(args).settings.model)
            actor = await self._host.new_session(root, config=permitted(args))
            self._about.line(f"session     {actor.session_id}")
            await self._following.follow(actor)
            return actor
        actor = await self._host.open_session(args.session, root)
        self._about.line(f"session     {actor.session_id}")
        self._about.line(resumed(actor.resuming()))
        await self._following.follow(actor, actor.synced_seq + 1)
        change = opening.said_now(args)
        if change != SessionConfigured():
            await actor.configure(change)
        await opening.check_answers(args, self._keys, actor.state.facts.config.model)
        if actor.state.facts.held:
            await actor.resume_queue()
        return actor

    async def _turn(self, actor: SessionActor, text: str) -> TurnOutcome:
        from ullage.editors import mapping
        from ullage.editors.methods import PREFIX

        turn_id = new_session_id(serve.now())
        self._out.gone = lambda: actor.cancel(turn_id)
        asking = asyncio.ensure_future(actor.prompt(turn_id, (Text(text),), PromptMode.QUEUE))
        self._listen(actor, turn_id)
        outcome = await asking
        payload = mapping.prompt_payload(turn_id, outcome)
        self._teller.result(PREFIX + "session/prompt", payload.model_dump(mode="json", by_alias=True))
        return outcome

    def _listen(self, actor: SessionActor, turn_id: str) -> None:
        """Signals cancel the turn, which is then written down; a second Ctrl-C ends the process where it stands."""
        loop = asyncio.get_running_loop()

        def interrupted() -> None:
            loop.remove_signal_handler(signal.SIGINT)
            self._interrupted = True
            self._about.line("cancelling; Ctrl-C again leaves at once")
            actor.cancel(turn_id)

        loop.add_signal_handler(signal.SIGINT, interrupted)
        loop.add_signal_handler(signal.SIGTERM, actor.cancel, turn_id)
