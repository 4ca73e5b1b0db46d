"""Whether a command line may run by what a person has allowed, or must be asked about. Pure but for the grammar.

Invariant: a line is allowed only when its shape is known and every command and every redirection in it is allowed by
itself. Nothing is allowed because of what else stands in the line, and nothing because it is on no list.

A rule is words: `git status` allows exactly that, `git log *` what begins so. A rule that ends in `*` never covers a
program that runs others (`env`, `xargs`, `bash`), changes how later commands go (`export`), or takes a program as its
argument (`sed`, `awk`); for an interpreter it has to name what is run (`python -m pytest *`), and for git the
subcommand. A person who allowed the exact words meant them.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from ullage.tools.shell import Redirection, SimpleCommand, UnknownShape, parse_shell

# fmt: off
_RUN_OTHERS: Final = frozenset({
    ".", "alias", "awk", "bash", "bind", "builtin", "busybox", "caller", "chroot", "command", "complete",
    "coproc", "dash", "declare", "doas", "ed", "emacs", "enable", "env", "eval", "ex", "exec", "expect",
    "export", "fish", "flock", "gawk", "gdb", "getopts", "hash", "ionice", "ksh", "less", "let", "local",
    "ltrace", "lua", "man", "mapfile", "mawk", "more", "nice", "nohup", "nsenter", "parallel", "perl", "php",
    "popd", "pushd", "read", "readarray", "readonly", "ruby", "script", "sed", "set", "setsid", "sh", "shopt",
    "source", "ssh", "stdbuf", "strace", "su", "sudo", "systemd-run", "tclsh", "time", "timeout", "trap",
    "typeset", "unalias", "unset", "unshare", "vi", "vim", "watch", "xargs", "zsh",
})
_INTERPRETERS: Final = frozenset({
    "bun", "cargo", "deno", "docker", "git", "go", "gradle", "java", "make", "mvn", "node", "npm", "npx", "pipx",
    "pnpm", "podman", "poetry", "pypy", "python", "rustup", "tox", "uv", "uvx", "yarn",
})
_OPTIONS: Final = {
    "find": ("-exec", "-ok", "-delete", "-fprint", "-fls"),
    "git": ("-c", "-C", "-x", "-O", "--config", "--exec", "--ext-diff", "--git-dir", "--open-files-in-pager",
            "--output", "--receive-pack", "--textconv", "--upload-pack", "--work-tree"),
    "tar": ("-I", "-F", "--checkpoint-action", "--info-script", "--new-volume-script", "--rmt-command",
            "--rsh-command", "--to-command", "--use-compress-program"),
    "rg": ("--pre", "--hostname-bin"),
    "sort": ("--compress-program",),
    "rsync": ("-e", "--rsh"),
    "printf": ("-v",),
}
# fmt: on
"""By program, beginnings of options that run a program, or write where nobody looks. A hint and no boundary: the
boundary is that somebody allowed the program."""


_PLACES: Final = 16
"""Most folders that a line's paths are looked at from."""


@dataclass(frozen=True, slots=True)
class ShellRules:
    """What is allowed. Paths are given tidied, relative to the root; `protected` ones are asked about always."""

    commands: tuple[str, ...]
    protected: Callable[[str], bool]
    may_write: Callable[[str], bool] = lambda path: False
    """Whether a redirection may write this file."""


@dataclass(frozen=True, slots=True)
class Allow:
    """It may run."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A person must be asked; `why` is a clause."""

    why: str


def shell_verdict(line: str, rules: ShellRules) -> Allow | Ask:
    """Whether a line may run without being asked about."""
    read = parse_shell(line)
    if isinstance(read, UnknownShape):
        return Ask(read.why)
    patterns = [_pattern(rule) for rule in rules.commands]
    places = ["."]
    for part in read.parts:
        match part:
            case SimpleCommand(words):
                why = _why_not_run(words, patterns, places, rules)
            case Redirection():
                why = _why_not_open(part, places, rules)
            case _:
                assert_never(part)
        if why is not None:
            return Ask(why)
    return Allow()


def _pattern(rule: str) -> list[str]:
    """Its words; none for a rule that is no rule, which then allows nothing."""
    try:
        return shlex.split(rule)
    except ValueError:
        return []


def _why_not_run(words: tuple[str, ...], patterns: list[list[str]], places: list[str], rules: ShellRules) -> str | None:
    name = words[0]
    if why := _why_not_named(words, places, rules):
        return why
    if name == "cd":
        # What follows may run there or here: its paths are looked at from both.
        if len(words) != 2 or words[1].startswith("-") or len(places) > _PLACES:
            return "it changes the folder in a way that is not understood"
        places += {_tidy(place, words[1]) for place in places} - set(places)
        return None
    if any(pattern == list(words) for pattern in patterns):
        return None
    if not any(_covers(pattern, words) for pattern in patterns):
        return f"`{name}` with these words is not allowed yet"
    return None


def _covers(pattern: list[str], words: tuple[str, ...]) -> bool:
    """Whether a rule with an open end allows these words."""
    if len(pattern) < 2 or pattern[-1] != "*":
        return False
    fixed, name = pattern[:-1], posixpath.basename(words[0])
    if list(words[: len(fixed)]) != fixed or name in _RUN_OTHERS:
        return False
    if name.rstrip("0123456789.") in _INTERPRETERS and all(word.startswith("-") for word in fixed[1:]):
        return False
    risky = _OPTIONS.get(name, ())
    return not any(word.startswith(risky) for word in words[len(fixed) :])


def _why_not_named(words: Iterable[str], places: Iterable[str], rules: ShellRules) -> str | None:
    """Whether a word may be a path that nobody has allowed, whatever the program makes of it."""
    for path in (_tidy(place, word) for each in words for word in _paths(each) for place in places):
        if rules.protected(path):
            return f"it names the protected `{path}`"
    for word in (word for each in words for word in _paths(each)):
        if word.startswith(("/", "~")) or any(_leaves(_tidy(place, word)) for place in places):
            return f"it names `{word}`, which is not in the workspace"
    return None


def _paths(word: str) -> Iterator[str]:
    """What of a word could be a path."""
    yield word
    if word.startswith("-") and word[2:]:
        yield word[2:]  # as in -I../include
    if "=" in word:
        yield word.partition("=")[2]


def _why_not_open(redirection: Redirection, places: Iterable[str], rules: ShellRules) -> str | None:
    target = redirection.target
    if target == "/dev/null":
        return None
    if why := _why_not_named((target,), places, rules):
        return why
    if redirection.operator == "<" or all(rules.may_write(_tidy(place, target)) for place in places):
        return None
    return f"it writes `{target}`"


def _tidy(place: str, word: str) -> str:
    return posixpath.normpath(posixpath.join(place, word))


def _leaves(path: str) -> bool:
    return path == ".." or path.startswith(("../", "/"))
