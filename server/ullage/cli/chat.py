"""`ullage chat DIR`: a session in a terminal, in this process.

Invariants: a line that begins with a slash never reaches the model; Ctrl-C cancels what runs and nothing that waits;
however the chat is left, what runs is cancelled and everything is written down first. The workspace is trusted; what
may be changed in it is `--permission`'s to say (`cli.asking`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

from ullage import settings
from ullage.cli import opening, serve
from ullage.cli.asking import add_permission
from ullage.cli.console import Console, Lines, is_rich
from ullage.cli.output import Out
from ullage.cli.run import FAILED, INTERRUPTED, NOT_UNDERSTOOD
from ullage.core.errors import BadInput, SessionUnavailable

if TYPE_CHECKING:
    from ullage.cli.chatting import Chat
    from ullage.providers.choosing import Providers
    from ullage.providers.keys import Keys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The workspace, the session to go on with, and every setting."""
    parser.epilog = (
        "/help in the chat names its commands. Without a terminal each line of standard input is a prompt or a "
        "command; the exit code is then that of the first that failed, as `ullage run` has it (2: no such command)."
    )
    parser.add_argument("folder", metavar="DIR", help="the workspace")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="go on with this session of the workspace")
    which.add_argument("--continue", dest="last", action="store_true", help="go on with the session that changed last")
    add_permission(parser, "plan", "ask", "edits")
    settings.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Chat until it is left: 0; without a terminal the code of the first line that failed, or 130 after Ctrl-C."""
    about = Out(sys.stderr)
    try:
        root = str(opening.folder(args.folder))
        keys = serve.take_keys()
        return asyncio.run(_chat(args, root, keys))
    except BadInput as error:
        about.error(error.report)
        return NOT_UNDERSTOOD
    except SessionUnavailable as error:
        about.error(error.report)
        return NOT_UNDERSTOOD if error.report.code in ("unknown_session", "wrong_root") else FAILED


async def _chat(args: argparse.Namespace, root: str, keys: Keys) -> int:
    from ullage.cli.chatting import Chat

    chosen: list[Providers] = []
    host = serve.make_host(args, os.environ, keys, chosen.append)({})
    chat = Chat(host, args, keys)
    console = _console(args, root, chat)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, console.leave)
    try:
        await chat.run(root, console)
    finally:
        await host.close()
        await chosen[0].close()
        try:
            await chat.ended()
        finally:
            console.close()
    return INTERRUPTED if chat.interrupted else chat.code if console.scripted else 0


def _console(args: argparse.Namespace, root: str, chat: Chat) -> Console:
    if not is_rich():
        return Lines(chat.status)
    from ullage.cli.terminal import Terminal

    return Terminal(settings.load(args).settings.home, root, chat.status, chat.interrupt)
