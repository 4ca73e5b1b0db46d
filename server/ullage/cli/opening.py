"""What every command that lets a model answer in a terminal begins with: a folder, exact counts, somebody to answer."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Final

from ullage import settings
from ullage.cli import serve
from ullage.cli.output import Out
from ullage.core.errors import BadInput
from ullage.core.events import SessionConfigured
from ullage.providers.keys import ANTHROPIC, VARIABLES, Keys
from ullage.providers.ranks import TableDamaged
from ullage.providers.tokens import load_counter

_OURS: Final = (settings.Source.COMMAND_LINE, settings.Source.ENVIRONMENT)
"""What stands above a session's own settings."""

_WAYS: Final = f"""To have Claude answer, set a key and a model:
    export {VARIABLES[ANTHROPIC]}=...
    export ULLAGE_MODEL=claude-sonnet-4-6          (or --model)
or keep the key in your system's keyring (python -m pip install keyring):
    python -m keyring set ullage {ANTHROPIC}
Every endpoint that speaks the Messages API (/v1/messages, with streaming) can be used; a key is needed only if it
wants one:
    export ULLAGE_BASE_URL=http://127.0.0.1:8080   (or --base-url)
    export ULLAGE_MODEL=name-of-the-model
To try it offline with the explorer, a rule-based stand-in: add --provider explorer.
`ullage doctor` tells what is set; docs/providers.md has more."""


def folder(name: str) -> Path:
    """The real path of a workspace.

    Raises:
        BadInput: there is no such folder.
    """
    named = Path(name or ".")
    if not named.is_dir():
        raise BadInput(f"{name} is no folder.", hint="Name the folder of a workspace.")
    return named.resolve()


async def load_ranks(about: Out) -> None:
    """Count with the real table from the start; half a second, in which nobody types."""
    try:
        await asyncio.to_thread(load_counter)
    except TableDamaged as error:
        about.error(error.report)


async def check_answers(args: argparse.Namespace, keys: Keys, model: str | None) -> None:
    """Raises BadInput where nothing would answer, or the explorer would that nobody asked for."""
    said = settings.load(args).settings
    if said.provider == "explorer" or os.environ.get(serve.SCRIPT):
        return
    key = await asyncio.to_thread(keys.get, ANTHROPIC)
    if key is None and said.base_url is None:
        raise BadInput("There is no key, so no model can answer.", hint=_WAYS, code="no_key")
    if model is None and said.model is None:
        raise BadInput("No model is set, so none can answer.", hint=_WAYS, code="no_model")


def said_now(args: argparse.Namespace) -> SessionConfigured:
    """What the command line and the environment say; a session keeps its own settings otherwise."""
    resolved = settings.load(args)
    said = {name for name, source in resolved.sources.items() if source in _OURS}
    chosen = resolved.settings
    return SessionConfigured(
        model=chosen.model if "model" in said else None,
        profile=chosen.profile if "profile" in said else None,
        window=chosen.window if "window" in said else None,
        output_cap=chosen.output_cap if "output_cap" in said else None,
        auto_compaction=chosen.compaction_auto if "compaction_auto" in said else None,
        handoff=chosen.handoff if "handoff" in said else None,
        permission_mode=args.permission,
    )
