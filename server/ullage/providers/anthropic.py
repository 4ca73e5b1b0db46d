"""The Anthropic provider: Claude, or any endpoint that speaks the Messages API.

The official SDK makes the requests and splits the stream; it is imported when it is first needed, since that takes a
second, and its own retries are off. Ours happen before any output only, and whoever listens is told of each. Errors are
`anthropic_errors`' business, JSON is `anthropic_body`'s, events are `anthropic_stream`'s.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ullage.core.errors import ErrorReport
from ullage.core.messages import Image
from ullage.core.ports import Answer, ModelCard, ProviderEvent, ProviderFailure, Retrying
from ullage.core.requests import Request
from ullage.providers import anthropic_errors as errors
from ullage.providers.anthropic_body import Bodies, joined, with_room
from ullage.providers.anthropic_errors import Failed, failed, from_status
from ullage.providers.anthropic_stream import Collector
from ullage.providers.keys import ANTHROPIC, Keys
from ullage.providers.limits import Limits
from ullage.providers.models import from_table
from ullage.providers.shapes import LoadImage

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

ENDPOINT: Final = "https://api.anthropic.com"
NO_KEY_NEEDED: Final = "none"
"""What a compatible endpoint of one's own is sent where there is no key."""

_JSON: Final[Any] = {"headers": {"Content-Type": "application/json"}}
_IMAGE_GONE: Final = ErrorReport(
    "image_missing", "An image went missing while the request was made.", "Send once more: it is left out then."
)


@dataclass(frozen=True, slots=True)
class World:
    """What the provider needs from outside; tests give it something else.

    `load` gives an image's bytes or None. `transport` is an httpx2 transport instead of the network.
    """

    load: LoadImage = lambda image: None
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    spread: Callable[[], float] = random.random
    transport: Any = None


class Anthropic:
    """Implements `Provider` for one model. `url` None means Anthropic's own endpoint."""

    def __init__(
        self, model: str, keys: Keys, url: str | None = None, limits: Limits | None = None, world: World | None = None
    ) -> None:
        self._keys, self._url = keys, url
        self._limits, self._world = limits or Limits(), world or World()
        self._card, self._most = from_table(model)
        self._learned = False
        self._bodies = Bodies(self._load, self._limits.anthropic_thinking)
        self._client: tuple[str, AsyncAnthropic] | None = None

    @property
    def card(self) -> ModelCard:
        return self._card

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Answer a request.

        Raises:
            ProviderFailure: every kind that `anthropic_errors` has; retries are used up, or there was output.
        """
        client = await self._ready()
        body = self._body(request)
        tried = 0
        while True:
            output = False
            try:
                async for event in self._once(client, body):
                    output = True
                    yield event
                return
            except Exception as error:
                told = self._told(error, request.tokens)
            if told.room is not None and told.room < int(body["max_tokens"]) and not output:
                body = with_room(body, told.room)
                continue
            wait = self._wait(told, tried)
            if output or wait is None:
                self._learn_limit(told.failure)
                raise told.failure
            tried += 1
            yield Retrying(tried + 1, self._limits.anthropic_tries, wait, told.failure.report)
            await self._world.pause(wait)

    async def count_tokens(self, request: Request) -> int:
        """Tokens of a request as the provider counts them.

        Raises:
            ProviderFailure: it could not be asked.
        """
        client = await self._ready()
        body = self._body(request)
        counted = {name: value for name, value in body.items() if name != "max_tokens"}
        try:
            return await self._count(client, joined(counted))
        except Exception as error:
            raise self._told(error, request.tokens).failure from None

    async def close(self) -> None:
        """Let go of connections that wait for a next request."""
        if self._client is not None:
            await self._client[1].close()
            self._client = None

    # --- one call ---

    async def _once(self, client: AsyncAnthropic, body: dict[str, bytes]) -> AsyncGenerator[ProviderEvent, None]:
        """One try. Leaving it closes the connection, whatever the reason.

        The body goes to the SDK as bytes: its own way would copy and write all that was ever said at every step.
        """
        from anthropic import AsyncStream
        from anthropic.types import Message, RawMessageStreamEvent

        collector, content = Collector(self._card.name), joined(body | {"stream": b"true"})
        events: AsyncStream[RawMessageStreamEvent] = await client.post(
            "/v1/messages",
            content=content,
            options=_JSON,
            cast_to=Message,
            stream=True,
            stream_cls=AsyncStream[RawMessageStreamEvent],
        )
        async with events:
            async for event in events:
                delta = collector.take(event)
                if delta is not None:
                    yield delta
        yield collector.answer()

    async def _count(self, client: AsyncAnthropic, content: bytes) -> int:
        from anthropic.types import MessageTokensCount

        path = "/v1/messages/count_tokens"
        return (await client.post(path, content=content, options=_JSON, cast_to=MessageTokensCount)).input_tokens

    def _load(self, image: Image) -> bytes:
        """A session looks for its images before it plans a request, so one that is gone went between."""
        content = self._world.load(image)
        if content is None:
            raise ProviderFailure(_IMAGE_GONE)
        return content

    def _body(self, request: Request) -> dict[str, bytes]:
        most = request.max_output if self._most is None else min(request.max_output, self._most)
        return self._bodies.make(replace(request, model=self._card.name, max_output=most))

    def _wait(self, told: Failed, tried: int) -> float | None:
        """Seconds until the next try; None when there is none."""
        limits = self._limits
        if not told.failure.transient or tried + 1 >= limits.anthropic_tries:
            return None
        if told.wait is not None:
            return told.wait if told.wait <= limits.anthropic_longest_wait else None
        step: float = min(limits.anthropic_first_wait * 2**tried, limits.anthropic_longest_wait)
        return step * (0.5 + self._world.spread() / 2)

    def _told(self, error: Exception, estimate: int) -> Failed:
        """An error of the SDK or its transport as one of ours, without any key."""
        import anthropic
        import httpx2

        if isinstance(error, ProviderFailure):
            return Failed(error)
        if isinstance(error, anthropic.APIStatusError):
            text = self._keys.mask(error.api_message or str(error.body or ""))
            kind, headers = error.type, error.response.headers
            window = self._card.window
            return from_status(error.status_code, kind, text, headers, estimate=estimate, window=window)
        if isinstance(error, anthropic.APITimeoutError | httpx2.TimeoutException):
            return Failed(failed(errors.TIMEOUT))
        if isinstance(error, anthropic.APIConnectionError):
            return Failed(failed(errors.NO_CONNECTION, self._keys.mask(str(error.__cause__ or ""))))
        if isinstance(error, httpx2.TransportError):
            return Failed(failed(errors.CUT))
        raise error

    # --- the client and the model's card ---

    async def _ready(self) -> AsyncAnthropic:
        """The client, with the key that counts now; the first time, the model is looked up."""
        key = self._keys.at_hand(ANTHROPIC)
        if key is None and self._keys.likely(ANTHROPIC):
            key = await asyncio.to_thread(self._keys.get, ANTHROPIC)
        if key is None and self._url is None:
            raise failed(errors.NO_KEY)
        key = key or NO_KEY_NEEDED
        if self._client is None or self._client[0] != key:
            await asyncio.to_thread(import_sdk)
            self._client = (key, self._connect(key))
        if not self._learned:
            await self._learn(self._client[1])
        return self._client[1]

    def _connect(self, key: str) -> AsyncAnthropic:
        import anthropic
        import httpx2

        limits = self._limits
        timeout = httpx2.Timeout(limits.anthropic_silence, connect=limits.anthropic_connect)
        # A redirect would carry the key to wherever it points.
        http = anthropic.DefaultAsyncHttpxClient(
            transport=self._world.transport, timeout=timeout, follow_redirects=False
        )
        return anthropic.AsyncAnthropic(
            api_key=key, base_url=self._url or ENDPOINT, timeout=timeout, max_retries=0, http_client=http
        )

    async def _learn(self, client: AsyncAnthropic) -> None:
        """Ask what the model takes; an endpoint that does not say leaves the table."""
        import anthropic
        import httpx2

        name = self._card.name
        try:
            info = await client.models.retrieve(name, timeout=self._limits.anthropic_connect)
        except (anthropic.APIConnectionError, httpx2.TransportError):
            return  # no network right now: the next request asks again
        except anthropic.APIStatusError as error:
            self._learned = error.status_code < 500 and error.status_code != 429
            return
        self._learned = True
        if type(info.max_input_tokens) is int and info.max_input_tokens > 0:
            self._card = replace(self._card, window=info.max_input_tokens, window_source="provider")
        if type(info.max_tokens) is int and info.max_tokens > 0:
            self._most = info.max_tokens

    def _learn_limit(self, failure: ProviderFailure) -> None:
        """A window that the provider names while it refuses is what it takes."""
        if failure.limit is not None and (self._card.window is None or failure.limit < self._card.window):
            self._card = replace(self._card, window=failure.limit, window_source="provider")


class AnthropicSummariser:
    """Implements `Summariser`: samples of `provider`'s model, whatever model the session has."""

    def __init__(self, provider: Anthropic) -> None:
        self._provider = provider

    @property
    def card(self) -> ModelCard:
        return self._provider.card

    async def summarise(self, request: Request) -> Answer:
        async for event in self._provider.stream(request):
            if isinstance(event, Answer):
                return event
        raise failed(errors.CUT)


def import_sdk() -> None:
    """Import the SDK; a second, so in a thread."""
    import anthropic
    import anthropic.resources.messages  # the SDK puts this off until the first request
    import anthropic.resources.models  # noqa: F401
