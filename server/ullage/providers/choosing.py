"""Who answers a session: Claude where a key and a model are set, else the offline explorer.

Each is imported when it is first asked for: an editor waits for nothing that may never answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ullage.core.ports import Provider, Summariser, TokenCounter
from ullage.core.state import Config
from ullage.providers.keys import ANTHROPIC, Keys
from ullage.providers.limits import Limits

if TYPE_CHECKING:
    from ullage.providers.anthropic import Anthropic, World
    from ullage.providers.explorer import Explorer

ProviderName = Literal["explorer", "anthropic"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the settings say. `provider` None: decide by key and model."""

    provider: ProviderName | None = None
    model: str | None = None
    url: str | None = None
    summary_model: str | None = None


class Providers:
    """The providers of one process; one per model, so that what was learned of it stays."""

    def __init__(
        self,
        wanted: Wanted,
        keys: Keys,
        counter: Callable[[], TokenCounter],
        limits: Limits | None = None,
        world: World | None = None,
    ) -> None:
        self._wanted, self._keys, self._counter = wanted, keys, counter
        self._limits, self._world = limits or Limits(), world
        self._models: dict[str, Anthropic] = {}
        self._explorers: dict[int | None, Explorer] = {}

    def model(self, config: Config) -> str | None:
        """The model that answers, or None where the explorer does."""
        wanted, model = self._wanted, config.model or self._wanted.model
        if wanted.provider == "explorer" or model is None:
            return None
        has_way = wanted.provider == ANTHROPIC or wanted.url is not None or self._keys.likely(ANTHROPIC)
        return model if has_way else None

    def provider(self, config: Config) -> Provider:
        """What answers a session of this configuration right now: a key may come later."""
        model = self.model(config)
        if model is None:
            return self._explorer(config.window)
        return self._anthropic(model)

    def summariser(self, config: Config) -> Summariser | None:
        """Who writes summaries: a model does where one answers."""
        model = self.model(config)
        if model is None:
            return None
        from ullage.providers.anthropic import AnthropicSummariser

        return AnthropicSummariser(self._anthropic(self._wanted.summary_model or model))

    def warm(self) -> None:
        """Import what the first request would wait for, where there will be one. A second: call it in a thread."""
        if self.model(Config()) is not None:
            from ullage.providers.anthropic import import_sdk

            self._keys.get(ANTHROPIC)
            import_sdk()

    async def close(self) -> None:
        """Let go of every connection."""
        for model in self._models.values():
            await model.close()

    def _anthropic(self, model: str) -> Anthropic:
        if model not in self._models:
            from ullage.providers.anthropic import Anthropic

            self._models[model] = Anthropic(model, self._keys, self._wanted.url, self._limits, self._world)
        return self._models[model]

    def _explorer(self, window: int | None) -> Explorer:
        """Its own window is the configured one, so that it refuses what would not fit."""
        if window not in self._explorers:
            from ullage.providers.explorer import Explorer

            limits = self._limits if window is None else replace(self._limits, explorer_window=window)
            self._explorers[window] = Explorer(_Counting(self._counter), limits)
        return self._explorers[window]


@dataclass(frozen=True, slots=True)
class _Counting:
    """A `TokenCounter` that gets better once the rank table is there."""

    now: Callable[[], TokenCounter]

    @property
    def encoding(self) -> str:
        return self.now().encoding

    def count(self, text: str) -> int:
        return self.now().count(text)
