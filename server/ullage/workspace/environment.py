"""What of the server's environment a command gets: what is named here, and nothing else.

Invariant: no key, no setting of ours and no variable that makes a program run something else (`LD_PRELOAD`,
`BASH_ENV`, `GIT_SSH_COMMAND`, `PYTHONSTARTUP`) reaches a command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

# fmt: off
NAMES: Final = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "GOPATH", "GOROOT", "GOCACHE", "CARGO_HOME",
    "RUSTUP_HOME", "JAVA_HOME", "GRADLE_USER_HOME", "SDKROOT", "DEVELOPER_DIR", "NIX_SSL_CERT_FILE", "SSL_CERT_FILE",
    "SSL_CERT_DIR",
})
# fmt: on
"""Where programs, people and tool chains live."""

_PREFIX = "LC_"
_ALWAYS: Final = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Nobody sits at a terminal: programs must neither page nor ask."""


SHELLS: Final = (("bash", "--noprofile", "--norc", "-c", "--"), ("sh", "-c", "--"))
"""What runs a command line that follows: bash without start-up files, where there is one."""


def clean_environment(environ: Mapping[str, str], root: str) -> dict[str, str]:
    """The environment of a command in the workspace at `root`. No program is looked for in relative folders: those lie
    in the workspace."""
    kept = {name: value for name, value in environ.items() if name in NAMES or name.startswith(_PREFIX)}
    folders = [folder for folder in kept.get("PATH", "").split(os.pathsep) if folder.startswith("/")]
    return kept | _ALWAYS | {"PATH": os.pathsep.join(folders) or os.defpath, "PWD": root}
