"""A server with nothing but handlers for the tests of the wire: run as a process of its own."""

import asyncio
import logging
import subprocess
import sys
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from ullage.core.errors import BadInput
from ullage.editors.serving import UllageServer, run_stdio
from ullage.wire.limits import Limits
from ullage.wire.transport import Coalesce

Params = dict[str, Any]
protocol: Any = None


class Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    some_number: int


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def echo(params: Params) -> Params:
    protocol.notify("ullage/echoed", params)
    return params


async def bounce(params: Params) -> Any:
    return await protocol.request("ullage/ask", params)


async def wait(params: Params) -> None:
    tag = params.get("tag", "")
    say(f"waiting {tag}.")
    try:
        await asyncio.Event().wait()
    finally:
        say(f"cancelled {tag}.")


release = asyncio.Event()


async def let_go(params: Params) -> None:
    release.set()


async def stubborn(params: Params) -> Params:
    """Has something to clean up when cancelled (until released, with `hold`), then answers all the same."""
    say("stubborn.")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        say("cleaning.")
        await (release.wait() if params.get("hold") else asyncio.sleep(0))
    return {"stop": "cancelled"}


async def fail(params: Params) -> Any:
    match params["how"]:
        case "ours":
            raise BadInput("No such session.", hint="List the sessions.", session="s1", count=2)
        case "other":
            raise KeyError("hunter2")
        case "exit":
            sys.exit(3)
        case "params":
            Model.model_validate({"someNumber": "hunter2"})
        case "nan":
            return {"value": float("nan")}
        case "object":
            return object()
    return None


async def model(params: Params) -> Any:
    return Model(some_number=7)


async def nested_model(params: Params) -> Any:
    return {"inner": [Model(some_number=7)]}


async def noise(params: Params) -> None:
    print("a stray print")
    process = await asyncio.create_subprocess_exec("echo", "a child speaks", stdin=subprocess.DEVNULL)
    await process.wait()
    reader = await asyncio.create_subprocess_exec("cat")  # inherits our standard input, which is empty
    await reader.wait()


def join(parts: Any) -> Params:
    return {**parts[0], "text": "".join(each["text"] for each in parts)}


async def flood(params: Params) -> Params:
    text = "x" * params["size"]
    for number in range(params["count"]):
        if number % params["durableEvery"] == 0:
            protocol.notify("ullage/durable", {"number": number})
        protocol.notify("ullage/delta", {"offset": number * len(text), "text": text}, Coalesce("m1", join))
        if number % 100 == 0:
            await asyncio.sleep(0)
    statistics = protocol.writer.statistics()
    say(f"flooded waiting={statistics.waiting} dropped={statistics.dropped}")
    return {"waiting": statistics.waiting}


async def on_close() -> None:
    say("closed well")


METHODS = {
    "ullage/echo": echo,
    "ullage/bounce": bounce,
    "ullage/wait": wait,
    "ullage/stubborn": stubborn,
    "ullage/release": let_go,
    "ullage/fail": fail,
    "ullage/model": model,
    "ullage/nestedModel": nested_model,
    "ullage/noise": noise,
    "ullage/flood": flood,
}

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    server = UllageServer("echo", "1", METHODS, Limits(body=1024 * 1024, parent_poll=0.05))
    protocol = server.protocol

    @server.command("ullage.wait")
    async def command(*args: Any) -> None:
        await wait({"tag": "command"})

    @server.command("ullage.echo")
    async def echo_command(*args: Any) -> Any:
        return args

    sys.exit(run_stdio(server, on_close))
