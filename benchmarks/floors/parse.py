"""Floor of taking a message in: parse its body."""

import json


def parse(body):
    return json.loads(body)
