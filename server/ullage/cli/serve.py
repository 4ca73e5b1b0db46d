"""`ullage serve`: composes the real world (disk, clock, ids, provider) and answers one editor over stdin and stdout."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ullage import settings
from ullage.core.errors import BadInput
from ullage.core.events import SessionConfigured
from ullage.core.ports import Provider, TokenCounter
from ullage.core.state import Config
from ullage.providers.limits import Limits as ProviderLimits
from ullage.providers.tokens import ApproximateCounter, counter_if_loaded, load_in_background
from ullage.storage.ids import new_session_id

if TYPE_CHECKING:
    from ullage.editors.lsp import LspServer
    from ullage.sessions.host import Host

SCRIPT: Final = "ULLAGE_SCRIPT"
"""Environment variable: a JSON file of answers, which a scripted model then gives (see `ullage.testing.model`)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--stdio`, which editors say though there is nothing else yet, and every setting."""
    parser.add_argument("--stdio", action="store_true", help="Speak over standard input and output (the default).")
    settings.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until the editor goes; the exit code.

    Raises:
        BadInput: a setting, or the script.
    """
    from ullage.editors.serving import run_stdio

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    server = make_server(args, os.environ)
    return run_stdio(server, server.close)


def make_server(args: argparse.Namespace, environ: Mapping[str, str]) -> LspServer:
    """The server of one editor.

    Raises:
        BadInput: a setting, or the script.
    """
    from ullage.editors.lsp import LspServer

    limits = settings.load(args).limits
    return LspServer(
        make_host(args, environ),
        lambda: new_session_id(now()),
        limits.editors,
        limits.wire,
        load_counter=load_ranks,
    )


def make_host(args: argparse.Namespace, environ: Mapping[str, str]) -> Callable[[Mapping[str, Any]], Host]:
    """A function from the editor's settings to a host.

    Raises:
        BadInput: the script cannot be read.
    """
    scripted = _scripted(environ.get(SCRIPT))

    def make(said: Mapping[str, Any]) -> Host:
        from ullage.sessions.host import Host
        from ullage.sessions.ports import Ports
        from ullage.storage.files import DiskFiles

        resolved = settings.load(args, said)
        ports = Ports(
            files=DiskFiles(),
            home=resolved.settings.home,
            clock=now,
            new_id=new_session_id,
            fence=partial(secrets.token_hex, 8),
            counter=counter,
            provider=scripted or partial(_explorer, resolved.limits.providers),
            summariser=lambda config: None,
            limits=resolved.limits,
        )
        return Host(ports, _configured(resolved.settings))

    return make


def _configured(chosen: settings.Settings) -> SessionConfigured:
    """What a new session begins with."""
    return SessionConfigured(
        model=chosen.model,
        profile=chosen.profile,
        window=chosen.window,
        output_cap=chosen.output_cap,
        auto_compaction=chosen.compaction_auto,
        handoff=chosen.handoff,
    )


# --- the world ---


def now() -> int:
    """UTC milliseconds."""
    return time.time_ns() // 1_000_000


def counter() -> TokenCounter:
    """The rough counter until the rank table is loaded."""
    return counter_if_loaded() or ApproximateCounter()


def load_ranks(loaded: Callable[[], None]) -> None:
    """In the background; `loaded` is then called in that thread. When the table is damaged, counts stay rough and the
    log says so."""

    def done(future: Future[TokenCounter]) -> None:
        if error := future.exception():
            logging.getLogger(__name__).warning("Counts stay rough: %s", error)
        else:
            loaded()

    load_in_background().add_done_callback(done)


class _Counting:
    """A `TokenCounter` that gets better once the rank table is there."""

    @property
    def encoding(self) -> str:
        return counter().encoding

    def count(self, text: str) -> int:
        return counter().count(text)


def _explorer(limits: ProviderLimits, config: Config) -> Provider:
    """The embedded default. Its own window is the configured one, so that it refuses what would not fit."""
    from ullage.providers.explorer import Explorer

    if config.window is not None:
        limits = replace(limits, explorer_window=config.window)
    return Explorer(_Counting(), limits)


def _scripted(path: str | None) -> Callable[[Config], Provider] | None:
    """One scripted model for every session of this process."""
    if not path:
        return None
    from ullage.testing.model import ScriptedModel

    try:
        model = ScriptedModel.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{SCRIPT}: {error}", hint="Name a JSON file, or unset the variable.") from error
    return lambda config: model
