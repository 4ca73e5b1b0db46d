"""A conversation between a person at a console and a session: what a line does, and what is told meanwhile."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from ullage import settings
from ullage.cli import opening, serve, slash
from ullage.cli.asking import Asking, changes, permitted
from ullage.cli.bills import resumed
from ullage.cli.console import Console
from ullage.cli.output import Out
from ullage.cli.run import EXITS, FAILED, NOT_UNDERSTOOD
from ullage.cli.sessions import row
from ullage.cli.telling import Words, inspection
from ullage.core.errors import BadInput, ErrorReport, SessionUnavailable, UllageError
from ullage.core.events import PromptMode, SessionConfigured
from ullage.core.messages import Part, Text
from ullage.core.views import ShownAnswer, ShownPrompt
from ullage.editors import mapping, mapping_context
from ullage.editors.following import Following
from ullage.editors.limits import Limits
from ullage.editors.methods import PREFIX
from ullage.providers.keys import Keys
from ullage.sessions.actor import SessionActor
from ullage.sessions.host import Host
from ullage.storage.ids import new_session_id

Params = dict[str, Any]

_LOOK_BACK: Final = 200
"""Events searched for what was said last when a session goes on."""
_SHOWN_LINES: Final = 12
"""Lines shown of that answer."""


class Chat:
    """`code` is that of the first line that failed, `interrupted` whether Ctrl-C ended a script."""

    def __init__(self, host: Host, args: argparse.Namespace, keys: Keys) -> None:
        self._host, self._args, self._keys = host, args, keys
        self._following = Following(self._tell, Limits())
        self._asks: dict[str, asyncio.Task[None]] = {}
        """Turns and compactions that were asked for here and have not ended, by id, in order."""
        self._waiting: dict[str, str] = {}
        """What was said while a turn ran and has not entered yet, by turn."""
        self._cancelling = ""
        self._numbered: list[str] = []
        """Sessions as `/sessions` listed them last."""
        self._broke: BaseException | None = None
        self._farewell = ""
        self.code = 0
        self.interrupted = False
        self._asking = Asking(self._lines, lambda: self._console.refresh())
        host.listener = self._following.hear
        if changes(args):
            host.ask = self._asking.ask

    async def run(self, root: str, console: Console) -> None:
        """Read and do until the console is left.

        Raises:
            BadInput: nothing could answer, or there is no such session.
            SessionUnavailable: the session cannot be opened.
        """
        self._console = console
        self._out, self._about = Out(console.out), Out(console.about, dim=True)
        self._out.gone = self._about.gone = console.leave
        self._words = self._new_words()
        await opening.load_ranks(self._about)
        self._root = self._host.add_root(root, trusted=True)
        await self._begin()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.interrupt)
        while (line := await console.read()) is not None:
            if not self._asking.take(line) and line.strip() and not await self._line(line):
                break
            if console.waits:
                await self._settled()
        self._farewell = f"            left; `ullage chat DIR --session {self._actor.session_id}` goes on"

    async def _settled(self) -> None:
        """Wait until all that was asked for has ended, a question waits for a line, or the console is left."""
        ends = [asyncio.ensure_future(event.wait()) for event in (self._console.left, self._asking.began)]
        while self._asks and not any(end.done() for end in ends):
            await asyncio.wait([*self._asks.values(), *ends], return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()

    def _new_words(self) -> Words:
        return Words(self._out, self._about, self._about, meter=self._console.waits)

    async def ended(self) -> None:
        """Once the host is closed: everything that was asked for is told how it ended."""
        await asyncio.gather(*self._asks.values(), return_exceptions=True)
        if self._farewell:
            self._words.aside(self._farewell)
        if self._broke is not None:
            raise self._broke

    # --- sessions ---

    async def _begin(self) -> None:
        args = self._args
        if args.session is None and args.last:
            args.session = next((each.session_id for each in self._host.list_sessions(self._root)), None)
        if args.session is not None:
            await self._go_on(args.session)
            return
        # Asked before there is a session: one that nothing can answer is of no use to anybody.
        await opening.check_answers(args, self._keys, settings.load(args).settings.model)
        await self._take(await self._host.new_session(self._root, config=permitted(args)), 0)
        self._words.aside("            /help names the commands, Ctrl-C cancels what runs, Ctrl-D leaves")

    async def _go_on(self, session_id: str) -> None:
        actor = await self._open(session_id)
        await self._take(actor, actor.synced_seq + 1)
        self._tell_last(actor)
        self._words.aside(resumed(actor.resuming()))
        if actor.read_only is None:
            change = opening.said_now(self._args)
            if change != SessionConfigured():
                await actor.configure(change)
            await opening.check_answers(self._args, self._keys, actor.state.facts.config.model)
            if actor.state.facts.held:
                n_held = len(actor.state.facts.queue)
                self._words.aside(f"queue       {n_held} held; /resume lets it run, /drop empties it")

    async def _open(self, session_id: str) -> SessionActor:
        """Opened for reading only where another process has it and a person can go on with a fork."""
        try:
            return await self._host.open_session(session_id, self._root)
        except SessionUnavailable as error:
            if error.report.code != "session_busy" or self._console.scripted:
                raise
            self._words.aside(f"busy        {error.report.message} Reading only; /fork goes on beside it.")
            return await self._host.open_session(session_id, self._root, read_only=True)

    async def _take(self, actor: SessionActor, from_seq: int) -> None:
        """Go over to this session; what is told is told of it alone."""
        self._actor, self._words = actor, self._new_words()
        title = actor.state.facts.title
        self._words.aside(f"session     {actor.session_id}{f'  {title}' if title else ''}")
        await self._following.follow(actor, from_seq)

    async def _change_to(self, going: Coroutine[Any, Any, None]) -> None:
        """Go over to another session; the one before is closed once there is another."""
        before = self._actor
        try:
            await going
        finally:
            if self._actor is not before:
                await self._host.close_session(before.session_id)

    async def _fork(self) -> None:
        fork = await self._host.fork(self._actor.session_id)
        await self._take(fork, fork.synced_seq + 1)

    def _tell_last(self, actor: SessionActor) -> None:
        """What was said last, so that one knows where one is."""
        asked = answered = ""
        for shown in actor.history(max(0, actor.synced_seq - _LOOK_BACK)):
            match shown.what:
                case ShownPrompt(message=message):
                    asked, answered = message.text, ""
                case ShownAnswer(message=message) if message.text:
                    answered = message.text
                case _:
                    pass
        lines = [f"> {line}" for line in asked.splitlines()[:1]] + answered.splitlines()[:_SHOWN_LINES]
        for line in lines:
            self._words.aside(line)

    # --- what is told ---

    def _tell(self, method: str, params: Params, coalesce: object = None) -> None:
        if params["sessionId"] != self._actor.session_id:
            return
        update = params.get("update", {})
        if update.get("kind") in ("turnStarted", "steerEntered"):
            text = self._waiting.pop(update.get("steerId", update["turnId"]), None)
            if text is not None:
                self._words.aside(f"now         {text.splitlines()[0]}")
        self._words.notice(method, params)
        self._console.refresh()

    def status(self) -> str:
        """What stands at the prompt: the meter, and what goes on."""
        facts = self._actor.state.facts
        doing = self._words.under_way() or "working" if self._running() else ""
        doing = "y or n?" if self._asking.began.is_set() else doing
        queue = f"{len(facts.queue)} {'held' if facts.held else 'waiting'}" if facts.queue else ""
        reading = "reading only" if self._actor.read_only else ""
        return " | ".join(filter(None, (self._words.meter(), doing, queue, reading)))

    def _fail(self, error: ErrorReport, code: int = FAILED) -> None:
        self._words.end_line()
        self._about.error(error)
        self.code = self.code or code

    # --- what is asked ---

    async def _line(self, line: str) -> bool:
        """Do what a line says; False when it says to leave."""
        try:
            if not line.startswith("/"):
                self._say(line.strip(), PromptMode.QUEUE)
                return True
            command, rest = slash.parse(line)
            return await self._command(command, rest)
        except BadInput as error:
            self._fail(error.report, NOT_UNDERSTOOD)
        except UllageError as error:
            self._fail(error.report)
        return True

    def _say(self, text: str, mode: PromptMode) -> None:
        turn_id, facts = new_session_id(serve.now()), self._actor.state.facts
        if facts.held and facts.queue:
            self._words.aside("queue       held, and this waits in it; /resume lets it run, /drop empties it")
        elif self._running() and mode is PromptMode.QUEUE:
            self._words.aside("queue       this runs when the turn has ended; /steer TEXT enters the running one")
        if self._running():
            self._waiting[turn_id] = text
        self._start(turn_id, self._turn(turn_id, (Text(text.encode("utf-8", "replace").decode()),), mode))

    async def _command(self, command: str, rest: str) -> bool:
        match command:
            case "quit":
                return False
            case "help":
                self._lines(slash.described())
            case "steer":
                self._say(rest, PromptMode.STEER)
            case "compact":
                ask_id = new_session_id(serve.now())
                self._start(ask_id, self._compact(ask_id, rest))
            case "inspect":
                self._lines(
                    inspection(mapping_context.inspect_payload(self._actor.inspect()).model_dump(by_alias=True))
                )
            case "fork":
                self._check_idle()
                await self._change_to(self._fork())
            case "resume":
                await self._resume(rest)
            case "sessions":
                self._list()
            case "drop":
                await self._drop()
            case "rename":
                await self._actor.rename(rest)
                self._words.aside(f"title       {rest}")
            case "model":
                if rest:
                    await self._actor.configure(SessionConfigured(model=rest))
                self._words.aside(f"model       {self._actor.state.facts.config.model or 'as its provider has it'}")
            case _:
                raise AssertionError(command)
        return True

    def _lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._words.aside(line)

    def _check_idle(self) -> None:
        if self._running():
            raise BadInput("A turn is running here.", hint="Wait until it has ended, or cancel it with Ctrl-C.")

    async def _resume(self, which: str) -> None:
        """A held queue, or the session of that number or id; with neither, what there is to choose from."""
        facts = self._actor.state.facts
        if which:
            self._check_idle()
            number = int(which) - 1 if which.isascii() and which.isdigit() else -1
            session_id = self._numbered[number] if 0 <= number < len(self._numbered) else which
            if session_id != self._actor.session_id:
                await self._change_to(self._go_on(session_id))
        elif facts.held:
            for prompt in facts.queue:
                if prompt.turn_id not in self._asks:
                    self._start(prompt.turn_id, self._turn(prompt.turn_id, prompt.message.parts, PromptMode.QUEUE))
            await self._actor.resume_queue()
        else:
            self._list()

    def _list(self) -> None:
        found = self._host.list_sessions(self._root)
        self._numbered = [each.session_id for each in found]
        self._lines([f"{number:>3}  {row(each)}" for number, each in enumerate(found, 1)])
        self._words.aside("            /resume NUMBER goes on with one of them")

    async def _drop(self) -> None:
        queue = self._actor.state.facts.queue
        for prompt in queue:
            await self._actor.remove_prompt(prompt.turn_id)
        self._words.aside(f"queue       {len(queue)} taken out")

    # --- what goes on ---

    def _start(self, ask_id: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._asks[ask_id] = asyncio.ensure_future(self._told(work))
        task.add_done_callback(lambda _: self._over(ask_id))

    def _over(self, ask_id: str) -> None:
        del self._asks[ask_id]
        self._console.refresh()

    async def _told(self, work: Coroutine[Any, Any, None]) -> None:
        """An error is told where it happens; one that nobody expected ends the chat, which then tells it."""
        try:
            await work
        except UllageError as error:
            self._fail(error.report)
        except Exception as error:
            self._broke = error
            self._console.leave()

    async def _turn(self, turn_id: str, parts: Sequence[Part], mode: PromptMode) -> None:
        outcome = await self._actor.prompt(turn_id, parts, mode)
        self._waiting.pop(turn_id, None)
        if outcome.stop is not None:
            payload = mapping.prompt_payload(turn_id, outcome)
            self._words.result(PREFIX + "session/prompt", payload.model_dump(mode="json", by_alias=True))
            self.code = self.code or EXITS[outcome.stop]
        if outcome.error is not None:
            self._fail(outcome.error)

    async def _compact(self, ask_id: str, instructions: str) -> None:
        answer = await self._actor.compact(ask_id, instructions)
        if answer.error is None:
            return
        if answer.error.message == self._words.refused:
            self.code = self.code or FAILED
        else:
            self._fail(answer.error)

    def _running(self) -> str:
        """The id of what runs, not of what waits; empty when nothing does."""
        facts = self._actor.state.facts
        if facts.open_turn is not None:
            return facts.open_turn.turn_id
        waits = {prompt.turn_id for prompt in facts.queue}
        return next((ask_id for ask_id in self._asks if ask_id not in waits), "")

    def interrupt(self) -> None:
        """Ctrl-C: cancel what runs; else say how to leave, or leave where nobody could read that."""
        running = self._running()
        if running and running != self._cancelling:
            self._cancelling = running
            self._words.aside("cancelling")
            self._actor.cancel(running)
        if self._console.scripted:
            self.interrupted = True
            self._console.leave()
        elif not running and not self._console.clear():
            self._words.aside("            nothing runs; Ctrl-D or /quit leaves")
