"""Floor of a step: write the request's JSON, read the file that is asked for, log both durably."""

import json
import os


def steps(path, log, count):
    messages = []
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in range(count):
        json.dumps(messages)
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            text = file.read()
        new = [{"role": "assistant", "call": number}, {"role": "user", "result": text}]
        messages += new
        os.write(descriptor, json.dumps(new).encode() + b"\n")
        os.fdatasync(descriptor)
    os.close(descriptor)
