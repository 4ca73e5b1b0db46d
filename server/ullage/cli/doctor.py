"""`ullage doctor`: what is configured, who said so, and what is missing. It asks no network and shows no key."""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from ullage import __version__, settings
from ullage.cli import serve
from ullage.cli.output import Out
from ullage.core.errors import BadInput, UllageError
from ullage.core.state import Config
from ullage.providers.choosing import Providers
from ullage.providers.keys import ANTHROPIC, VARIABLES, Keys, has_keyring
from ullage.providers.models import from_table, price_of, read_prices
from ullage.providers.tokens import load_counter
from ullage.spending import caps
from ullage.workspace.openers import open_beneath
from ullage.workspace.sandbox import Sandbox, SandboxMode, can_confine, can_leave_network, described

OLDEST_PYTHON: Final = (3, 11)
"""As `pyproject.toml` has it."""


_SET_MODEL: Final = f"Set {settings.variable('model')} to have Claude answer; docs/providers.md has more."


class Health(StrEnum):
    OK = "ok"
    LESS = "less"
    """Something works in a lesser way, and says how."""
    BROKEN = "BROKEN"
    """Something that is needed does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing; `hint` says what to do."""

    name: str
    health: Health
    text: str
    hint: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every setting, so that a command line can be looked at before it is used."""
    parser.epilog = "Exit code: 0 when everything that is needed works, else 1."
    settings.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings; 1 when something needed is broken."""
    keys, out = serve.take_keys(), Out(sys.stdout)
    broken = False
    for found in findings(args, keys):
        broken = broken or found.health is Health.BROKEN
        out.line(f"{found.health:<7} {found.name:<10} {keys.mask(found.text)}")
        if found.hint:
            out.line(f"{'':<18} {keys.mask(found.hint)}")
    return 1 if broken else 0


def findings(args: argparse.Namespace, keys: Keys) -> Iterator[Finding]:
    """Everything there is to tell. With settings that are not understood, the default ones are looked at."""
    yield _python()
    yield _package("ullage", __version__)
    try:
        resolved = settings.load(args)
        yield Finding("settings", Health.OK, _said(resolved))
    except BadInput as error:
        resolved = settings.resolve({})
        yield Finding("settings", Health.BROKEN, error.report.message, error.report.hint)
    yield _home(resolved)
    yield _tokens()
    yield from _answers(resolved, keys)
    yield from (_search(), _door(), _rg(), _sandbox(resolved.settings.confined))


# --- the installation ---


def _python() -> Finding:
    text = f"{platform.python_version()} on {platform.system()} {platform.release()}"
    if sys.version_info >= OLDEST_PYTHON:
        return Finding("python", Health.OK, text)
    return Finding("python", Health.BROKEN, text, "Ullage needs Python 3.11 or newer.")


def _package(name: str, known: str | None = None) -> Finding:
    try:
        return Finding(name, Health.OK, known or version(name))
    except PackageNotFoundError:
        return Finding(name, Health.BROKEN, "not installed", "Install ullage again: it comes with it.")


def _tokens() -> Finding:
    try:
        counter = load_counter()
    except UllageError as error:
        return Finding("tokens", Health.BROKEN, error.report.message, error.report.hint)
    except ImportError as error:
        return Finding("tokens", Health.BROKEN, f"counts are estimates: {error}", "Install ullage again.")
    return Finding("tokens", Health.OK, f"counted offline with {counter.encoding}, whose table is whole")


def _search() -> Finding:
    try:
        with closing(sqlite3.connect(":memory:")) as base:
            base.execute("CREATE VIRTUAL TABLE probe USING fts5 (folded, tokenize='trigram')")
    except sqlite3.Error as error:
        text = f"SQLite {sqlite3.sqlite_version} cannot index: {error}"
        return Finding("search", Health.LESS, text, "Searching reads every log instead, which takes longer.")
    return Finding("search", Health.OK, f"SQLite {sqlite3.sqlite_version} with FTS5 and trigrams")


def _door() -> Finding:
    slower = "files are opened name by name, which is as strict"
    if not sys.platform.startswith("linux"):
        return Finding("door", Health.OK, slower)
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(open_beneath(root, (), os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        return Finding("door", Health.OK, f"openat2 is not available ({error.strerror}): {slower}")
    finally:
        os.close(root)
    return Finding("door", Health.OK, "files are opened by openat2, in one step")


def _rg() -> Finding:
    found = shutil.which("rg")
    return Finding("rg", Health.OK, f"{found or 'not installed'}; not needed, since searching files is built in")


def _sandbox(wanted: Sandbox) -> Finding:
    """What commands are confined to, and whether that can be had."""
    text = described(wanted)
    if wanted.mode is SandboxMode.OFF or not can_confine():
        return Finding("sandbox", Health.LESS, text, "Allow only commands that you would run yourself.")
    if not can_leave_network():
        text += " Cutting off the network is not possible here."
        if not wanted.network:
            hint = f"No command will run: set {settings.variable('sandbox_network')} to true."
            return Finding("sandbox", Health.BROKEN, text, hint)
    return Finding("sandbox", Health.OK, text)


# --- what is set ---


def _said(resolved: settings.Resolved) -> str:
    named = {name: source for name, source in resolved.sources.items() if source is not settings.Source.DEFAULT}
    said = ", ".join(f"{name} ({source.value})" for name, source in sorted(named.items()))
    return f"{said or 'all as they come'}; your file is {settings.user_file()}"


def _home(resolved: settings.Resolved) -> Finding:
    home, source = resolved.settings.home, resolved.sources["home"].value
    hint = f"Make it yours to write to, or set {settings.variable('home')} to another folder."
    there = next(path for path in (home, *home.parents) if path.exists())
    try:
        if not there.is_dir():
            raise NotADirectoryError(0, f"{there} is no folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(0, f"{there} cannot be written to")
        if there == home:
            _probe(home)
    except OSError as error:
        return Finding("home", Health.BROKEN, f"{home} ({source}): {error.strerror}", hint)
    return Finding("home", Health.OK, f"{home} ({source}), {'writable' if there == home else 'to be made'}")


def _probe(home: Path) -> None:
    """What a session's log needs of a disk: writing, syncing and locks."""
    with tempfile.TemporaryFile(dir=home) as file:
        file.write(b"probe")
        file.flush()
        os.fsync(file.fileno())
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _answers(resolved: settings.Resolved, keys: Keys) -> Iterator[Finding]:
    """Who answers and why, with which key, in which window."""
    said = resolved.settings
    keys.get(ANTHROPIC)  # looks into the keyring, so that what is chosen below is what a session will get
    model = Providers(serve.wanted(said), keys, serve.counter).model(Config(model=said.model))
    script = os.environ.get(serve.SCRIPT)
    if script:
        yield Finding("provider", Health.LESS, f"a script answers: {script}", f"Unset {serve.SCRIPT} for a model.")
    elif model is None:
        yield _explorer(said, has_key=keys.source(ANTHROPIC) is not None)
    else:
        yield _claude(resolved, model)
        yield _package("anthropic")
    yield _key(keys, is_needed=model is not None and said.base_url is None)
    yield _window(resolved, model)
    yield _cost(said, model)


def _explorer(said: settings.Settings, *, has_key: bool) -> Finding:
    text, hint = "explorer, offline and rule-based", "docs/providers.md says how to have Claude answer."
    if said.provider == "anthropic":
        return Finding("provider", Health.BROKEN, "anthropic is asked for, but no model is set", _SET_MODEL)
    if said.provider == "explorer":
        return Finding("provider", Health.OK, f"{text}, since it is asked for")
    if said.model is None:
        beside = ", though there is a key" if has_key else ""
        return Finding("provider", Health.LESS, f"{text}, since no model is set{beside}", _SET_MODEL)
    return Finding("provider", Health.LESS, f"{text}, since there is no key and no base_url", hint)


def _claude(resolved: settings.Resolved, model: str) -> Finding:
    said, sources = resolved.settings, resolved.sources
    if said.provider is not None:
        why = f"asked for ({sources['provider'].value})"
    else:
        why = "since a model and a base_url are set" if said.base_url else "since a model is set and there is a key"
    where = f" at {said.base_url} ({sources['base_url'].value})" if said.base_url else ""
    return Finding("provider", Health.OK, f"anthropic{where}, {why}; model {model} ({sources['model'].value})")


def _key(keys: Keys, *, is_needed: bool) -> Finding:
    source = keys.source(ANTHROPIC)
    if source is not None:
        return Finding("key", Health.OK, f"from the {source}")
    ring = "the keyring has none" if has_keyring() else "there is no package `keyring`"
    text = f"none: {VARIABLES[ANTHROPIC]} is not set, and {ring}"
    if is_needed:
        return Finding("key", Health.BROKEN, text, "docs/providers.md says how to give one.")
    return Finding("key", Health.OK, f"{text}; none is needed")


def _cost(said: settings.Settings, model: str | None) -> Finding:
    """Whether calls have a price."""
    if model is None or price_of(model, read_prices(said.prices or "")) is not None:
        return Finding("cost", Health.OK, "nobody is paid" if model is None else f"the price of {model} is known")
    health = Health.LESS if caps(said).in_dollars else Health.OK
    return Finding(
        "cost", health, f"what {model} costs is not known", f"Set {settings.variable('prices')} to count it."
    )


def _window(resolved: settings.Resolved, model: str | None) -> Finding:
    said = resolved.settings
    if said.window is not None:
        return Finding("window", Health.OK, f"{said.window:,} tokens ({resolved.sources['window'].value})")
    if model is None:
        return Finding("window", Health.OK, f"{resolved.limits.providers.explorer_window:,} tokens, the explorer's own")
    fallback = from_table(model)[0].window
    if fallback is None:
        hint = f"Set {settings.variable('window')} where the endpoint does not say; without one nothing is compacted."
        return Finding("window", Health.LESS, "asked of the provider; no table knows this model", hint)
    return Finding("window", Health.OK, f"asked of the provider; {fallback:,} tokens by our table if it does not say")
