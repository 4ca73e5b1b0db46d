"""Reading a command line as bash will: into simple commands and redirections, or not at all.

Invariant: what comes out is everything that the line runs and every file it redirects, word for word as the programs
will get it. So only plain shapes are read: commands in lists, pipelines, groups and subshells, with words that are
literal. Whatever expands, substitutes, loops, assigns, reads a here-document or hides is of unknown shape, and so is a
line that two readers (the grammar and `shlex`) do not read alike.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program or builtin with its arguments; at least one word."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Redirection:
    """A file that the shell opens; `operator` as it stands in the line, such as `>>`."""

    operator: str
    target: str


@dataclass(frozen=True, slots=True)
class ShellLine:
    """What a line runs and opens, in its order."""

    parts: tuple[SimpleCommand | Redirection, ...]

    @property
    def commands(self) -> tuple[SimpleCommand, ...]:
        return tuple(part for part in self.parts if isinstance(part, SimpleCommand))


@dataclass(frozen=True, slots=True)
class UnknownShape:
    """A line that is not read; `why` is a clause, such as "it substitutes a command"."""

    why: str


LONGEST: Final = 10_000
"""Characters of the longest line that is read."""

_GROUPS: Final = frozenset({"program", "list", "pipeline", "subshell", "compound_statement", "redirected_statement"})
_OPERATORS: Final = frozenset({";", "&&", "||", "|", "|&", "&", "(", ")", "{", "}", "\n"})
_OPENS: Final = frozenset({">", ">>", ">|", "<", "<>", "&>", "&>>", ">&"})
_COPIES: Final = frozenset({">&", "<&"})
_PLAIN: Final = re.compile(r"[\w@%+=:,./^-]+|!")
"""A word that bash takes as it stands, and `!` as an argument. What `\\w` holds beyond ASCII are letters and digits."""
# fmt: off
_RESERVED: Final = frozenset({
    "!", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while", "{", "}", "[[", "]]",
})
# fmt: on
"""Names that are none: bash goes on reading behind them, where the grammar may see a command."""
_WORDS: Final = {
    "expansion": "it expands a variable",
    "simple_expansion": "it expands a variable",
    "arithmetic_expansion": "it calculates",
    "command_substitution": "it substitutes a command",
    "process_substitution": "it substitutes a process",
    "variable_assignment": "it sets a variable",
    "heredoc_redirect": "it has a here-document",
    "herestring_redirect": "it has a here-string",
    "comment": "it has a comment",
}


class _Unknown(Exception):
    pass


def parse_shell(line: str) -> ShellLine | UnknownShape:
    """Read a line. Loads the grammar when it is first called; never raises."""
    if len(line) > LONGEST:
        return UnknownShape(f"it is longer than {LONGEST:,} characters")
    if not all(character.isprintable() or character in "\n\t" for character in line):
        return UnknownShape("it holds characters that do not show")
    try:
        tree = _parser().parse(line.encode())
        if tree.root_node.has_error:
            return UnknownShape("its syntax is not understood")
        reader = _Reader()
        parts = tuple(reader.parts(tree.root_node))
        if not parts or _words_by_shlex(line) != reader.words:
            return UnknownShape("it can be read in two ways")
        return ShellLine(parts)
    except _Unknown as error:
        return UnknownShape(str(error))
    except (RecursionError, UnicodeEncodeError):
        return UnknownShape("it is nested too deep or no text")


@functools.cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _words_by_shlex(line: str) -> list[str] | None:
    """Words and descriptors in the line's order, without operators; None where quotes do not close."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return [token for token in lexer if not set(token) <= set("();<>|&") or not token]
    except ValueError:
        return None


class _Reader:
    """Walks a tree; `words` are all literal words that were met, in the line's order."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def parts(self, node: Node) -> Iterator[SimpleCommand | Redirection]:
        if node.type in _GROUPS:
            for child in node.children:
                yield from self.parts(child)
        elif node.type == "negated_command":
            self.words.append("!")
            for child in node.children[1:]:
                yield from self.parts(child)
        elif node.type == "command":
            yield from self._command(node)
        elif node.type == "file_redirect":
            yield from self._redirection(node)
        elif node.type in _OPERATORS:
            self.words += [node.type] if node.type in "{}" else []
        else:
            raise _unknown(node)

    def _command(self, node: Node) -> Iterator[SimpleCommand | Redirection]:
        words: list[str] = []
        for child in node.children:
            if child.type == "file_redirect":
                yield from self._redirection(child)
            else:
                words.append(self._word(child.children[0] if child.type == "command_name" else child))
        if not words or not words[0] or words[0] in _RESERVED:
            raise _Unknown("a command has no name that is one")
        yield SimpleCommand(tuple(words))

    def _redirection(self, node: Node) -> Iterator[Redirection]:
        children = list(node.children)
        if children and children[0].type == "file_descriptor":
            self.words.append(_text(children.pop(0)))
        if len(children) != 2:
            raise _Unknown("a redirection is not understood")
        operator, target = children[0].type, self._word(children[1])
        if operator in _COPIES and (target.isdigit() or target == "-"):
            return
        if operator not in _OPENS:
            raise _Unknown("a redirection is not understood")
        yield Redirection(operator, target)

    def _word(self, node: Node) -> str:
        word = self._literal(node)
        self.words.append(word)
        return word

    def _literal(self, node: Node) -> str:
        text = _text(node)
        match node.type:
            case "word" | "number" if _PLAIN.fullmatch(text):
                return text
            case "raw_string" if text[1:-1].isprintable():
                return text[1:-1]
            case "string" if text[1:-1].isprintable() and not set(text[1:-1]) & set('$`\\!"'):
                return text[1:-1]
            case "concatenation":
                return "".join(self._literal(child) for child in node.children)
            case "word" | "string":
                raise _Unknown("a word is not literal")
            case _:
                raise _unknown(node)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _unknown(node: Node) -> _Unknown:
    return _Unknown(_WORDS.get(node.type, f"it has a {node.type.replace('_', ' ')}"))
