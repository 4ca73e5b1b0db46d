"""What a session keeps beside its log: images, and output that the model saw shortened."""

from __future__ import annotations

import errno
from pathlib import Path

from tests.sessions.stage import WINDOW, Stage, decided, kinds, of_kind, prompt, said

from ullage.context.toolresults import NOT_STORED
from ullage.core.events import ImagesLeftOut, ImagesMissing, PromptMode, ResultReceived, Stop
from ullage.core.messages import Image, Text
from ullage.storage.blobs import BlobStore
from ullage.storage.files import DiskFiles
from ullage.storage.ids import workspace_key
from ullage.testing.model import ask, call, say


def blobs_of(stage: Stage, root: Path) -> BlobStore:
    return BlobStore(stage.files, stage.home, workspace_key(str(root)))


async def test_images_that_a_request_goes_without_are_recorded(stage: Stage, root: Path) -> None:
    """Design 3, rule 3; bugs row 38: the oldest are left out first, and the log says which and of which request."""
    stage.play([say("Seen."), say("Seen again.")])
    actor = await stage.session(root, window=1_000_000)
    blobs = blobs_of(stage, root)
    pictures = [Image(blobs.put(bytes([number]) * 4_000_000), "image/png", 100, 100) for number in range(6)]
    outcome = await actor.prompt("t1", [Text("Look."), *pictures], PromptMode.QUEUE)
    assert outcome.error is None
    [left] = of_kind(actor, ImagesLeftOut)
    assert (left.turn_id, left.step) == ("t1", 1)
    assert left.images == tuple(picture.blob for picture in pictures[: len(left.images)]) != ()
    sent = [block for message in stage.model.requests[0].messages for block in message.blocks]
    assert sum(isinstance(block, Image) for block in sent) == len(pictures) - len(left.images)


async def test_an_image_that_is_gone_is_recorded_before_the_request(stage: Stage, root: Path) -> None:
    """Design 3, rule 3: once, before the step it is missing from; what was decided is what was sent, then and later."""
    stage.play([say("A cat."), say("It is gone."), say("Still."), say("After a restart.")])
    actor = await stage.session(root, window=100_000)
    blobs = blobs_of(stage, root)
    cat, dog = (Image(blobs.put(name), "image/png", 100, 100) for name in (b"a cat", b"a dog"))
    await actor.prompt("t1", [Text("Look."), cat, dog], PromptMode.QUEUE)
    next(stage.home.glob(f"blobs/*/*/{cat.blob.sha256}")).unlink()
    await prompt(actor, "t2")
    await prompt(actor, "t3")
    assert of_kind(actor, ImagesMissing) == [ImagesMissing((cat.blob,))]
    order = [kind for kind in kinds(actor) if kind in ("ImagesMissing", "StepStarted")]
    assert order == ["StepStarted", "ImagesMissing", "StepStarted", "StepStarted"]
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    await prompt(again, "t4")
    blocks = [[b for m in request.messages for b in m.blocks] for request in stage.model.requests]
    held = [[block for block in each if isinstance(block, Image)] for each in blocks]
    assert held == [[cat, dog], [dog], [dog], [dog]]
    assert all("not stored any more" in said(request) for request in stage.model.requests[1:])
    assert decided(again) == [request.tokens for request in stage.model.requests]


class FullDisk(DiskFiles):
    """Takes logs, but no blob."""

    def mkdir(self, path: Path) -> bool:
        if "blobs" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().mkdir(path)


async def test_output_that_can_not_be_stored_is_still_read(root: Path, tmp_path: Path) -> None:
    """T106: the model sees head and tail, and is sent to no reference; the session goes on."""
    stage = Stage(tmp_path / "home", FullDisk())
    stage.play([ask(call("read", path="big.txt", lines=2_000)), say("Read.")])
    actor = await stage.session(root)
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    [received] = of_kind(actor, ResultReceived)
    result = received.message.results[0]
    assert NOT_STORED in result.text and "read_output" not in result.text
    assert (result.full, result.is_error, actor.read_only) == (None, False, None)
    assert actor._engine.counter.count(result.text) <= WINDOW * 15 // 100
    lines = (root / "big.txt").read_text().splitlines()
    assert lines[0] in result.text and lines[-1] in result.text
    await stage.leave()
