"""Floor of a server's start: import pygls, and say so."""

import pygls.lsp.server  # noqa: F401

print("ready", flush=True)
