"""A loop around the anthropic SDK that never outgrows the model's window.

ANTHROPIC_API_KEY=... python docs/examples/anthropic_loop.py "What is in this folder?"
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import anthropic

from ullage.context import Conversation
from ullage.core.messages import Message, Role, ToolResult, Usage
from ullage.core.ports import ToolSpec
from ullage.providers.anthropic_shape import messages_from_anthropic, to_anthropic
from ullage.providers.tokens import load_counter

LIST = ToolSpec("list", "Lists a folder.", {"type": "object", "properties": {"path": {"type": "string"}}})


def list_folder(arguments: str) -> str:
    return "\n".join(sorted(path.name for path in Path().iterdir()))


async def ask(
    client: anthropic.AsyncAnthropic, talk: Conversation, prompt: str, run: Callable[[str], str] = list_folder
) -> str:
    """Say `prompt` and go on until the model asks for no more tools; its last words."""
    talk.say(prompt)
    while True:
        request = talk.request(max_output=1_000)  # compacts first where it is due
        answer = await client.messages.create(**to_anthropic(request))
        said = messages_from_anthropic([answer.to_dict()], request.model)[0]
        prompt_tokens = answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)
        prompt_tokens += answer.usage.cache_creation_input_tokens or 0
        talk.add(said, Usage(prompt=prompt_tokens, completion=answer.usage.output_tokens))
        if not said.calls:
            return said.text
        for call in said.calls:
            result = ToolResult(call.call_id, run(call.arguments))
            talk.add(Message("", Role.TOOL, (result,), ""))


async def main() -> None:
    model = "claude-haiku-4-5"
    talk = Conversation(load_counter(), window=200_000, model=model, system="Be brief.", tools=[LIST])
    async with anthropic.AsyncAnthropic(max_retries=0) as client:
        print(await ask(client, talk, " ".join(sys.argv[1:]) or "What is in this folder?"))
    now = talk.occupancy
    print(f"{now.used:,} of {now.budget.input_budget:,} tokens, {now.phase}", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
