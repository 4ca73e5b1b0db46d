"""Every setting, its default, and who may say what it is.

Invariant: a setting has one value, from the first source in `Source`'s order that names it; a workspace's own file can
only name what `WORKSPACE_MAY_SET` holds, because opening a folder must never send a prompt elsewhere, widen a
permission or raise a limit.

The limits that packages declare are settings too, `limits.<package>.<name>`; their bounds are fixed: a log, a handoff
record or a provider's rule rests on them.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

import ullage.context.limits
import ullage.core.limits
import ullage.editors.limits
import ullage.providers.limits
import ullage.sessions.ports
import ullage.storage.limits
import ullage.wire.limits
from ullage import spending
from ullage.core.errors import BadInput
from ullage.providers.choosing import ProviderName
from ullage.workspace.sandbox import Sandbox, SandboxMode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ENVIRONMENT_PREFIX: Final = "ULLAGE_"


class Source(Enum):
    """Who said it; the first wins."""

    COMMAND_LINE = "command line"
    ENVIRONMENT = "environment"
    SESSION = "session"
    EDITOR = "editor"
    USER_FILE = "user file"
    WORKSPACE_FILE = "workspace file"
    DEFAULT = "default"


WORKSPACE_MAY_SET: Final = frozenset({"profile", "instructions"})
"""What a workspace's own file may name."""


EDITOR_MAY_NOT: Final = frozenset({"base_url", "prices", "sandbox", "sandbox_network", "sandbox_writable"})
"""What a folder's settings, which may reach an editor's, must not do: send prompts away, blind caps, free commands."""

BEFORE_EDITOR: Final = ("limits.editors.", "limits.wire.")
"""Beginnings of names that no editor can set: the server goes by them before it hears of an editor's settings."""


@dataclass(frozen=True, slots=True)
class Limits(ullage.sessions.ports.Limits):
    """The limits of every package that has any."""

    editors: ullage.editors.limits.Limits = field(default_factory=ullage.editors.limits.Limits)
    providers: ullage.providers.limits.Limits = field(default_factory=ullage.providers.limits.Limits)
    wire: ullage.wire.limits.Limits = field(default_factory=ullage.wire.limits.Limits)


BOUNDS: Final[Mapping[str, DataclassInstance]] = {
    "core": ullage.core.limits.BOUNDS,
    "context": ullage.context.limits.BOUNDS,
    "storage": ullage.storage.limits.BOUNDS,
}
"""What is fixed, by package: it may be read about, and nobody may set it."""


def default_home() -> Path:
    """The platform's folder for a user's data."""
    return platformdirs.user_data_path("ullage", appauthor=False)


class Settings(BaseModel):
    """The values in force."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    home: Path = Field(
        default_factory=default_home,
        description="Where sessions are kept. Default: the platform's folder for a user's data.",
    )
    provider: ProviderName | None = Field(
        default=None,
        description="What answers: anthropic or explorer. Without it, anthropic when a model is set and there is a "
        "key for it or a base_url, else the offline explorer (docs/providers.md).",
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Name of the model that answers. Without one, the offline explorer answers.",
    )
    base_url: str | None = Field(
        default=None,
        max_length=2_000,
        description="Address of an endpoint that speaks the Messages API, instead of Anthropic's. Everything a "
        "session says goes there, and so does the key.",
    )
    summary_model: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Name of the model that writes summaries. Without one, the model that answers.",
    )
    prices: spending.Prices = None
    price_tier: spending.PriceTier = None
    cap_call_tokens: spending.CallTokens = None
    cap_call_dollars: spending.CallDollars = None
    cap_turn_tokens: spending.TurnTokens = None
    cap_turn_dollars: spending.TurnDollars = None
    cap_session_tokens: spending.SessionTokens = None
    cap_session_dollars: spending.SessionDollars = None
    cap_day_tokens: spending.DayTokens = None
    cap_day_dollars: spending.DayDollars = None
    window: int | None = Field(
        default=None,
        ge=1_000,
        le=100_000_000,
        description="The model's whole context, in tokens. Without it, what the provider says, else unknown: "
        "then nothing is handed off or compacted by itself.",
    )
    output_cap: int | None = Field(
        default=None,
        ge=1,
        description="Tokens kept free for an answer. Without it, the smaller of a quarter of the window and a "
        "tenth of it clamped to 8,192-32,768.",
    )
    profile: str = Field(
        default="ullage",
        pattern=r"^[a-z][a-z0-9_-]{0,39}$",
        description="The way a session is kept inside its window.",
    )
    compaction_auto: bool = Field(
        default=True,
        description="Compact by itself at 80 % of the input budget. When off, a session that no longer fits "
        "stops with an error; compacting by hand still works.",
    )
    handoff: bool = Field(
        default=True,
        description="Remind the model once, between 70 % and 80 % of the input budget, to write down where it stands.",
    )

    instructions: str = Field(
        default="AGENTS.md",
        max_length=400,
        pattern=r"^[^/\\\x00-\x1f]*$",
        description="Names of instruction files that the model is told of, separated by commas. They are looked for in "
        "the root of a trusted workspace and in folders whose files are used; of one folder the first that is there "
        "counts. A comma alone: none.",
    )

    sandbox: SandboxMode = Field(
        default=SandboxMode.AUTO,
        description="auto: commands can write in the workspace and the temporary folder only, where the kernel has "
        "Landlock; off: anywhere. `ullage doctor` tells what holds.",
    )
    sandbox_network: bool = Field(
        default=True,
        description="Whether confined commands reach the network. When off, none starts where that cannot be had.",
    )
    sandbox_writable: str = Field(
        default="",
        max_length=4_000,
        description="More folders that confined commands can write in, such as caches, separated by colons.",
    )

    @field_validator("home")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return home.expanduser().absolute()

    @property
    def confined(self) -> Sandbox:
        """What commands are confined to."""
        folders = (str(Path(name).expanduser()) for name in self.sandbox_writable.split(":") if name)
        return Sandbox(self.sandbox, self.sandbox_network, tuple(name for name in folders if name.startswith("/")))

    @property
    def instruction_names(self) -> tuple[str, ...]:
        """Names of instruction files, the first that is there counts."""
        return tuple(name for part in self.instructions.split(",") if (name := part.strip()))

    @field_validator("base_url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "")
        if url is not None and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("it must begin with http:// or https:// and name a host")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError("no user, password or query may stand in it; a key has its own place")
        return url

    @model_validator(mode="after")
    def _output_fits(self) -> Self:
        if self.window and self.output_cap and self.output_cap >= self.window:
            raise ValueError("output_cap must be smaller than window")
        return self


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings and limits in force, and for each name where its value came from."""

    settings: Settings
    limits: Limits
    sources: Mapping[str, Source]


def names() -> tuple[str, ...]:
    """Every setting's name, in the order the documentation has them."""
    return (*Settings.model_fields, *limit_defaults())


def limit_defaults() -> dict[str, int | float]:
    """Name to default of every limit that is a number."""
    return {
        f"limits.{package.name}.{limit.name}": limit.default
        for package in dataclasses.fields(Limits)
        for limit in dataclasses.fields(getattr(Limits(), package.name))
        if isinstance(limit.default, int | float)
    }


def bounds() -> dict[str, int | float]:
    """Name to value of everything that is fixed, named as if it were a limit."""
    return {
        f"limits.{package}.{bound.name}": getattr(fixed, bound.name)
        for package, fixed in BOUNDS.items()
        for bound in dataclasses.fields(fixed)
    }


def resolve(said: Mapping[Source, Mapping[str, Any]]) -> Resolved:
    """Settings from what each source said; None means that it said nothing of that setting.

    Raises:
        BadInput: a name that is none, a value that is none, or more than a workspace file may say.
    """
    values: dict[str, Any] = {}
    sources = dict.fromkeys(names(), Source.DEFAULT)
    for source in reversed(Source):
        named = {name: value for name, value in said.get(source, {}).items() if value is not None}
        _check_names(source, named)
        named = spending.lowering(named, values) if source is Source.EDITOR else named
        values |= named
        sources |= dict.fromkeys(named, source)
    plain = {name: value for name, value in values.items() if name in Settings.model_fields}
    limits = {name: value for name, value in values.items() if name not in plain}
    return Resolved(_settings(plain, sources), _limits(limits, sources), sources)


def _check_names(source: Source, named: Mapping[str, Any]) -> None:
    known, fixed = set(names()), bounds()
    for name in named:
        if name in fixed:
            raise BadInput(
                f"{source.value}: {name} is fixed at {fixed[name]:,}",
                hint="Leave it out; docs/settings.md says what may be set.",
            )
        if name not in known:
            raise BadInput(f"{source.value}: there is no setting {name!r}", hint="docs/settings.md has them all.")
        if source is Source.EDITOR and name in EDITOR_MAY_NOT:
            raise BadInput(
                f"an editor may not set {name!r}", hint=f"Set {variable(name)}, or write it into {user_file()}."
            )
        if source is Source.EDITOR and name.startswith(BEFORE_EDITOR):
            raise BadInput(
                f"{source.value}: {name} is needed before an editor can say anything",
                hint=f"Set {variable(name)}, or write it into {user_file()}.",
            )
        if source is Source.WORKSPACE_FILE and name not in WORKSPACE_MAY_SET:
            raise BadInput(
                f"a workspace file may not set {name!r}", hint="Set it in your own settings, if you want it."
            )


def _settings(values: Mapping[str, Any], sources: Mapping[str, Source]) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        if not first["loc"]:
            raise BadInput(first["msg"].removeprefix("Value error, "), hint="Change one of them.") from None
        name = str(first["loc"][0])
        raise _bad_value(name, sources[name], first["msg"], Settings.model_fields[name].description or "") from None


def _limits(values: Mapping[str, Any], sources: Mapping[str, Source]) -> Limits:
    limits = Limits()
    for name, value in values.items():
        _, package, limit = name.split(".")
        number = _number(name, value, sources[name])
        changed = dataclasses.replace(getattr(limits, package), **{limit: number})
        limits = dataclasses.replace(limits, **{package: changed})
    return limits


def _number(name: str, value: Any, source: Source) -> int | float:
    kind = type(limit_defaults()[name])
    try:
        number: int | float = kind(str(value))
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        wanted = "a whole number above zero" if kind is int else "a number above zero"
        raise _bad_value(name, source, f"{value!r} is not {wanted}", "")
    return number


def _bad_value(name: str, source: Source, what: str, hint: str) -> BadInput:
    return BadInput(f"setting {name} ({source.value}): {what}", hint=hint, setting=name, source=source.value)


# --- sources ---------------------------------------------------------------------------------------------------------


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def user_file() -> Path:
    """A user's own settings, TOML."""
    return platformdirs.user_config_path("ullage", appauthor=False) / "settings.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """An option for every setting (limits have none); `from_arguments` reads them back."""
    for name, info in Settings.model_fields.items():
        flag = "--" + name.replace("_", "-")
        text = (info.description or "").replace("%", "%%")
        if info.annotation is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            parser.add_argument(flag, metavar=name.upper(), help=text)


def from_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """What the command line said."""
    return {name: getattr(args, name, None) for name in Settings.model_fields}


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the environment says; an empty variable says nothing."""
    known = (*names(), *bounds())
    return {name: environ[variable(name)] for name in known if environ.get(variable(name))}


def from_file(path: Path) -> dict[str, Any]:
    """What a settings file says; a missing file says nothing. Tables become dotted names.

    Raises:
        BadInput: the file cannot be read or is not TOML.
    """
    try:
        return _flat(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}", hint="Correct the file, or move it away.") from error


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def load(args: argparse.Namespace, editor: Mapping[str, Any] | None = None) -> Resolved:
    """Settings of a process: its command line, environment, editor and user file.

    Raises:
        BadInput: see `resolve` and `from_file`.
    """
    return resolve(
        {
            Source.COMMAND_LINE: from_arguments(args),
            Source.ENVIRONMENT: from_environment(os.environ),
            Source.EDITOR: _flat(editor or {}),
            Source.USER_FILE: from_file(user_file()),
        }
    )
