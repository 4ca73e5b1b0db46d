"""`ullage serve`: composes the real world (disk, clock, ids, provider) and answers one editor over stdin and stdout."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ullage import settings
from ullage.core.errors import BadInput
from ullage.core.events import SessionConfigured
from ullage.core.messages import Image
from ullage.core.ports import Provider, TokenCounter
from ullage.core.state import Config
from ullage.providers.choosing import Providers, Wanted
from ullage.providers.keys import Keys, MaskingFilter
from ullage.providers.models import price_of, read_prices
from ullage.providers.tokens import ApproximateCounter, counter_if_loaded, load_in_background
from ullage.spending import caps
from ullage.storage.ids import new_session_id

if TYPE_CHECKING:
    from ullage.editors.lsp import LspServer
    from ullage.sessions.host import Host
    from ullage.storage.files import Files

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

    keys = take_keys()
    chosen: list[Providers] = []
    server = make_server(args, os.environ, keys, chosen)

    async def close() -> None:
        await server.close()
        for providers in chosen:
            await providers.close()

    return run_stdio(server, close)


def take_keys() -> Keys:
    """The environment's keys, which then stand there no more; the log, which goes to standard error, shows none."""
    keys = Keys()
    keys.take(os.environ)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(MaskingFilter(keys))
    return keys


def make_server(
    args: argparse.Namespace,
    environ: Mapping[str, str],
    keys: Keys | None = None,
    chosen: list[Providers] | None = None,
) -> LspServer:
    """The server of one editor; `chosen` is given the providers it has.

    Raises:
        BadInput: a setting, or the script.
    """
    from ullage.editors.lsp import LspServer

    limits = settings.load(args).limits
    chosen = [] if chosen is None else chosen
    return LspServer(
        make_host(args, environ, keys, chosen.append),
        lambda: new_session_id(now()),
        limits.editors,
        limits.wire,
        load_counter=partial(load, chosen),
    )


def make_host(
    args: argparse.Namespace,
    environ: Mapping[str, str],
    keys: Keys | None = None,
    made: Callable[[Providers], None] = lambda providers: None,
) -> Callable[[Mapping[str, Any]], Host]:
    """A function from the editor's settings to a host; `made` hears which providers it has.

    Raises:
        BadInput: the script cannot be read.
    """
    scripted = _scripted(environ.get(SCRIPT))
    own_keys = keys or Keys()

    def make(said: Mapping[str, Any]) -> Host:
        from ullage.providers.anthropic import World
        from ullage.sessions.host import Host
        from ullage.sessions.ports import Ports
        from ullage.storage.files import DiskFiles

        resolved = settings.load(args, said)
        files, home = DiskFiles(), resolved.settings.home
        world = World(load=partial(load_image, files, home))
        providers = Providers(wanted(resolved.settings), own_keys, counter, resolved.limits.providers, world)
        made(providers)
        ports = Ports(
            files=files,
            home=home,
            clock=now,
            new_id=new_session_id,
            fence=partial(secrets.token_hex, 8),
            counter=counter,
            provider=scripted or providers.provider,
            summariser=(lambda config: None) if scripted else providers.summariser,
            limits=resolved.limits,
            keys=own_keys,
            caps=caps(resolved.settings),
            price_tier=resolved.settings.price_tier,
            price=partial(price_of, own=read_prices(resolved.settings.prices or "")),
            instructions=resolved.settings.instruction_names,
            sandbox=resolved.settings.confined,
        )
        return Host(ports, _configured(resolved.settings))

    return make


def wanted(chosen: settings.Settings) -> Wanted:
    """What the settings say of who answers."""
    return Wanted(chosen.provider, chosen.model, chosen.base_url, chosen.summary_model)


def load_image(files: Files, home: Path, image: Image) -> bytes | None:
    """An image's bytes, whichever workspace holds it: its name is its hash, so there are no two."""
    from ullage.storage.blobs import BlobStore

    keys = files.list(home / "blobs")
    return next((found for key in keys if (found := BlobStore(files, home, key).get(image.blob)) is not None), None)


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


def load(chosen: Sequence[Providers], loaded: Callable[[], None]) -> None:
    """What may take its time once the editor has its answer: the rank table, then the SDK where it will be used."""

    def warm() -> None:
        loaded()
        try:
            for providers in chosen[-1:]:
                providers.warm()
        except ImportError as error:
            logging.getLogger(__name__).warning("The provider cannot be used: %s", error)

    load_ranks(warm)


def load_ranks(loaded: Callable[[], None]) -> None:
    """In the background; `loaded` is then called in that thread. When the table is damaged, counts stay rough and the
    log says so."""

    def done(future: Future[TokenCounter]) -> None:
        if error := future.exception():
            logging.getLogger(__name__).warning("Counts stay rough: %s", error)
        else:
            loaded()

    load_in_background().add_done_callback(done)


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
