"""Floor of a turn with a model: the SDK's stream, the file that is asked for, both logged durably. Prints seconds."""

import json
import os
import sys
from time import process_time

import anthropic

TOOL = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object"}}
MARK = {"cache_control": {"type": "ephemeral"}}


def turn(client, path, descriptor):
    messages = [{"role": "user", "content": [{"type": "text", "text": "Read it."}]}]
    while True:
        messages[-1]["content"][-1] |= MARK
        blocks, pieces = [], []
        with client.messages.create(
            model="claude-scripted", max_tokens=4_000, tools=[TOOL], messages=messages, stream=True
        ) as events:
            for event in events:
                if event.type == "content_block_start":
                    blocks.append(event.content_block.to_dict())
                    pieces.append("")
                elif event.type == "content_block_delta":
                    pieces[-1] += event.delta.text if event.delta.type == "text_delta" else event.delta.partial_json
        del messages[-1]["content"][-1]["cache_control"]
        for block, text in zip(blocks, pieces, strict=True):
            block["text" if block["type"] == "text" else "input"] = (
                text if block["type"] == "text" else json.loads(text)
            )
        uses = [block for block in blocks if block["type"] == "tool_use"]
        results = []
        for use in uses:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123
                results.append({"type": "tool_result", "tool_use_id": use["id"], "content": file.read()})
        new = [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
        messages += new
        os.write(descriptor, json.dumps(new).encode() + b"\n")
        os.fdatasync(descriptor)
        if not uses:
            return


if __name__ == "__main__":
    url, key, path, log = sys.argv[1:]
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    client = anthropic.Anthropic(api_key=key, base_url=url, max_retries=0)
    turn(client, path, descriptor)
    print("ready", flush=True)
    sys.stdin.readline()
    start = process_time()
    turn(client, path, descriptor)
    print(process_time() - start, flush=True)
