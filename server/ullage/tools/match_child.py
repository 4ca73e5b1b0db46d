"""The process that matches a regular expression for `grep`; run as a script, it needs the standard library only.

It opens nothing: the bytes to search come in on stdin. First a frame with the pattern, answered by `{}` or
`{"error": ...}`; then for each frame of bytes a list of `[line number, line, column]`. A frame is four bytes of
length and the content; an answer is one line of JSON.
"""

import json
import re
import struct
import sys
import warnings
from typing import Any, BinaryIO


def read_frame(source: BinaryIO) -> bytes | None:
    """The next frame, None at the end."""
    header = source.read(4)
    return source.read(struct.unpack(">I", header)[0]) if len(header) == 4 else None


def search(pattern: re.Pattern[str], content: bytes, most: int, around: int) -> list[tuple[int, str]]:
    """Matching lines with their numbers; of a long line, the part around the hit."""
    hits: list[tuple[int, str]] = []
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), 1):
        found = pattern.search(line.removesuffix("\r"))
        if found:
            start = max(0, found.start() - around // 4) if len(line) > around else 0
            hits.append((number, line[start : start + around].rstrip("\r")))
            if len(hits) == most:
                break
    return hits


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer frames until stdin ends."""

    def answer(value: Any) -> None:
        sink.write(json.dumps(value).encode() + b"\n")
        sink.flush()

    order = json.loads(read_frame(source) or b"{}")
    try:
        pattern = re.compile(order["pattern"], re.IGNORECASE if order["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        answer({"error": str(error) or type(error).__name__})
        return
    answer({})
    while (content := read_frame(source)) is not None:
        answer(search(pattern, content, order["most"], order["around"]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # a doubtful pattern is the model's business
    main(sys.stdin.buffer, sys.stdout.buffer)
