"""What stands on the wire, declared once: the base of every payload, values that several share, initialize, roots.

`docs/protocol.md` and its JSON Schema are made from these models. Names are camelCase on the wire. Fields that a model
does not know are ignored, so that a newer client may say more; a wrong type is refused (-32602). A field without a
value is null, never absent.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from ullage.core.context import Strategy
from ullage.core.messages import clean_text

PROTOCOL_VERSION = 1
"""Raised when a client that worked would no longer do so."""


def _clean(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


CleanText = Annotated[str, BeforeValidator(_clean)]
"""Free text; lone surrogates, which editors do send, become U+FFFD."""

SessionId = Annotated[CleanText, Field(description="Session id (uuid7).")]
TurnId = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_.:-]{1,64}$", description="Turn id, made by whoever prompts; a repeated one is the same."
    ),
]
Seq = Annotated[int, Field(ge=0, description="Number of an event in the session's log, from 0.")]


class Payload(BaseModel):
    """Base of everything on the wire."""

    # Building is deferred because start-up is awaited and most models are not needed for it.
    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        strict=True,
        extra="ignore",
        defer_build=True,
        allow_inf_nan=False,
        json_schema_serialization_defaults_required=True,
    )


class Done(Payload):
    """It is done; there is nothing else to say."""


class ErrorPayload(Payload):
    """What went wrong, and what to do next. Also the `data` of error -32001."""

    code: str = Field(description="A stable snake_case word.")
    message: CleanText = Field(description="A sentence for a person.")
    hint: CleanText = Field(description="What to do next; may be empty.")
    data: dict[str, str | int] = Field(description="Figures and names.")


class ParentPayload(Payload):
    """Where a fork comes from."""

    session_id: SessionId
    seq: int = Field(description="Last seq that was copied.")


class UsagePayload(Payload):
    """Tokens of one model call as its provider reported them; null means not reported."""

    prompt: int | None = Field(description="Tokens of the request, cached ones included.")
    completion: int | None = Field(description="Tokens of the answer.")
    total: int | None = Field(description="Tokens of both, where the provider says so.")
    cache_read: int | None = Field(description="Tokens of the request that came from a cache.")
    cache_write: int | None = Field(description="Tokens of the request that were written to a cache.")
    reasoning: int | None = Field(description="Tokens of the answer that are not sent back.")


class TotalsPayload(Payload):
    """Tokens and money paid so far. Money is in micro-dollars: a million are one US dollar."""

    calls: int = Field(description="Model calls.")
    prompt: int = Field(description="Tokens of requests.")
    completion: int = Field(description="Tokens of answers.")
    cache_read: int = Field(description="Tokens of requests that came from a cache.")
    cache_write: int = Field(description="Tokens of requests that were written to a cache.")
    unreported: int = Field(description="Calls whose provider reported no usage.")
    priced: int = Field(description="Calls whose cost is known.")
    cost: int | None = Field(description="What these cost, in micro-dollars; null when there is none.")


class ReportPayload(Payload):
    """What one compaction did. `before` and `after` are occupancies on one basis."""

    strategy: Strategy = Field(description="Who wrote the replacement.")
    profile: str = Field(description="The profile that compacted.")
    before: int = Field(description="Tokens of the next request before.")
    after: int = Field(description="Tokens of the next request after.")
    kept_messages: int = Field(description="Messages that stay word for word.")
    dropped_messages: int = Field(description="Messages that the ledger now stands for.")
    restored_files: tuple[CleanText, ...] = Field(description="Files read again, relative to the root.")
    samples: int = Field(description="Summaries a model was asked for.")
    failure: CleanText | None = Field(description="Why the model's summary was not used (strategy `fallback`).")
    duration_ms: int = Field(description="Milliseconds from the plan to the commit.")


# --- initialize ---


class EditorSettings(Payload):
    """Settings an editor may send; null leaves a setting to the sources below the editor (see settings.md)."""

    provider: Literal["explorer", "anthropic"] | None = Field(default=None, description="What answers.")
    model: str | None = Field(default=None, description="Name of the model that answers.")
    summary_model: str | None = Field(default=None, description="Name of the model that writes summaries.")
    window: int | None = Field(default=None, description="The model's whole context, in tokens.")
    output_cap: int | None = Field(default=None, description="Tokens kept free for an answer.")
    profile: str | None = Field(default=None, description="The way a session is kept inside its window.")
    compaction_auto: bool | None = Field(default=None, description="Compact by itself at the compaction line.")
    handoff: bool | None = Field(default=None, description="Remind the model once, before the compaction line.")
    limits: dict[str, dict[str, int | float]] | None = Field(
        default=None, description="Limits by package and name, as settings.md has them; not those of editors and wire."
    )


class OurOptions(Payload):
    """`initializationOptions.ullage`."""

    trusted_roots: list[CleanText] = Field(
        default=[], description="Folders (file URIs or absolute paths) that the person trusts. Absent: none is trusted."
    )
    settings: dict[str, Any] = Field(
        default={},
        description="An EditorSettings object. What is unknown or wrong is left out and reported by window/logMessage.",
    )


class Options(Payload):
    """`initializationOptions`; what is not ours is left alone."""

    ullage: OurOptions = OurOptions()


class Abilities(Payload):
    """`capabilities.experimental.ullage` of the initialize result."""

    version: int = Field(description="Version of this protocol.")
    methods: tuple[str, ...] = Field(description="Requests the server answers.")
    notifications: tuple[str, ...] = Field(description="Notifications the server sends.")
    images: bool = Field(description="Whether prompts may hold images.")
    update_bytes: int = Field(description="Most bytes of tool text in one update.")


# --- keys ---


class AuthParams(Payload):
    """A provider's key, as a person typed it. Kept in memory only, for this process."""

    provider: str = Field(max_length=100, description="Whose key it is: anthropic.")
    key: SecretStr | None = Field(description="The key. Null forgets the one that was given before.")


class AuthPayload(Payload):
    """What there is now. A key itself is never sent."""

    provider: str = Field(description="Whose key it is.")
    source: Literal["editor", "environment", "keyring"] | None = Field(
        description="Where the key that is used comes from; null when there is none."
    )


# --- roots ---


class TrustParams(Payload):
    """Whether a person trusts a workspace: an untrusted one gets no tools."""

    root: CleanText = Field(description="The workspace: a file URI or an absolute path.")
    trusted: bool = Field(description="True grants tools, false takes them away.")


class RootPayload(Payload):
    """One workspace."""

    root: CleanText = Field(description="Real path of the workspace.")
    trusted: bool = Field(description="Whether its sessions have tools.")
