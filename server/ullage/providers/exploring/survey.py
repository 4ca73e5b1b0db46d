"""What the explorer knows of files by their name, and of lines by their look. Pure tables and matching."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from ullage.context.shorten import NOTE
from ullage.providers.exploring.notes import Place, quotable
from ullage.providers.limits import Limits

_SOURCES = {
    ".c": "C",
    ".cc": "C++",
    ".cpp": "C++",
    ".cs": "C#",
    ".css": "CSS",
    ".go": "Go",
    ".h": "C",
    ".html": "HTML",
    ".java": "Java",
    ".js": "JavaScript",
    ".jsx": "JavaScript",
    ".kt": "Kotlin",
    ".lua": "Lua",
    ".mjs": "JavaScript",
    ".php": "PHP",
    ".py": "Python",
    ".rb": "Ruby",
    ".rs": "Rust",
    ".scala": "Scala",
    ".sh": "Shell",
    ".sql": "SQL",
    ".swift": "Swift",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
}
_PROSE = {".md": "Markdown", ".rst": "reStructuredText", ".txt": "Text"}
_DATA = {".cfg": "INI", ".ini": "INI", ".json": "JSON", ".toml": "TOML", ".yaml": "YAML", ".yml": "YAML"}
_LANGUAGES = _SOURCES | _PROSE | _DATA
_FRONT = frozenset({"makefile", "pyproject.toml", "package.json", "cargo.toml", "go.mod", "setup.py", "pom.xml"})
_LOCKS = frozenset({"package-lock.json", "pnpm-lock.yaml", "uv.lock"})
_TEST_PATH = re.compile(r"(?:^|/)tests?/|(?:^|/)test_[^/]*$|_test\.\w+$|\.(?:test|spec)\.\w+$")


class Find(StrEnum):
    """What a line can be."""

    ENTRY = "entry points"
    TODO = "TODOs"
    TEST = "tests"


PATTERNS = {
    Find.ENTRY: r"^if __name__ == .__main__.|^\[project\.scripts\]|^func main\(|^(pub )?fn main\(|^int main\("
    r"|public static void main\(|^\s*\"(main|bin)\":",
    Find.TODO: r"(^|(#|//|/\*|\*|--|;|<!--)\s*)(TODO|FIXME)\b(?! =)",
    Find.TEST: r"^\s*(async )?def test_|^\s*(it|test|describe)\([\"'`]|^func Test[A-Z]|^\s*#\[test\]",
}
"""Regular expressions that the `grep` tool takes as well."""

_COMPILED = {find: re.compile(pattern) for find, pattern in PATTERNS.items()}
_DEFINITION = re.compile(
    r"^\s*(?:export |async |pub |public |static )*(?:def|class|fn|func|function|interface|type|struct|enum|const) "
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a listing; `size` in bytes, None where the listing has none."""

    path: str
    size: int | None


def language(path: str) -> str | None:
    """The language of a file by its name."""
    return "Make" if _name(path) == "makefile" else _LANGUAGES.get(_suffix(path))


def _name(path: str) -> str:
    return path.rpartition("/")[2].lower()


def _suffix(path: str) -> str:
    stem, dot, end = _name(path).rpartition(".")
    return dot + end if stem else ""


def is_test(path: str) -> bool:
    return _TEST_PATH.search(path) is not None


_Key = tuple[int, int, str]


def reading_order(paths: Iterable[str]) -> Callable[[str], _Key]:
    """A sort key that spreads the reading: the front pages, then the first file of every folder, the second, ...

    A path that is not among `paths` has the place it would have there, so the order survives a file that went away.
    """
    known = tuple(paths)
    top = min((path.count("/") for path in known), default=0)
    folders: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for path in known:
        folders[_folder(path)].append((_rank(path), path))
    siblings = {folder: sorted(inside) for folder, inside in folders.items()}

    def key(path: str) -> _Key:
        rank = _rank(path)
        if rank == 0 and path.count("/") == top:
            return -1, rank, path
        return bisect_left(siblings.get(_folder(path), []), (rank, path)), rank, path

    return key


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _rank(path: str) -> int:
    """Within a folder: front pages, sources, tests, prose, data."""
    name, suffix = _name(path), _suffix(path)
    if name in _FRONT or name.startswith("readme"):
        return 0
    if suffix in _SOURCES:
        return 2 if is_test(path) else 1
    return 3 if suffix in _PROSE else 4


def worth_reading(file: Listed, limits: Limits) -> bool:
    """Whether a file is text of a sane size and name, not empty and not too deep."""
    name = _name(file.path)
    sane = len(file.path) <= limits.explorer_path_characters and quotable(file.path) == file.path
    known = language(file.path) is not None and name not in _LOCKS and ".min." not in name
    return (
        sane
        and known
        and file.path.count("/") <= limits.explorer_depth
        and file.size != 0
        and (file.size or 0) <= limits.explorer_file_bytes
    )


def languages(files: Iterable[Listed]) -> Iterator[str]:
    """Languages with their number of files, most first."""
    counted = Counter(name for file in files if (name := language(file.path)))
    for name, count in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])):
        yield f"{name} {count}"


def biggest(files: Iterable[Listed]) -> Iterator[str]:
    """The readable files by size, biggest first."""
    known = [(file.size, file.path) for file in files if file.size is not None and language(file.path)]
    for size, path in sorted(known, key=lambda pair: (-pair[0], pair[1])):
        yield f"{path} {size} bytes"


def judge(line: str) -> Find | None:
    """What a line is, if anything."""
    return next((find for find, pattern in _COMPILED.items() if pattern.search(line)), None)


def is_definition(line: str) -> bool:
    return _DEFINITION.search(line) is not None


# --- the tools' texts ---

_LISTED = re.compile(r"(?P<path>\S.*?)(?:  (?P<size>\d+))?")
_SHOWN = re.compile(r"^\[\d+ of (?P<all>\d{1,9}) entries are shown", re.MULTILINE)
_HIT = re.compile(r"(?P<path>[^:\n]+):(?P<line>\d{1,9}): ?(?P<text>.*)")
_NUMBERED = re.compile(r"\s*(?P<number>\d{1,9})\t(?P<text>.*)")


def is_cut(text: str) -> bool:
    """Whether a result was shortened, by the share it may take or by a compaction."""
    return any(line.startswith(NOTE) for line in text.split("\n"))


def whole_lines(text: str) -> list[str]:
    """The lines that are surely whole: those next to a note of what is left out may be halves."""
    lines = text.split("\n")
    notes = {number for number, line in enumerate(lines) if line.startswith(NOTE)}
    return [line for number, line in enumerate(lines) if not notes & {number - 1, number, number + 1}]


def parse_listing(text: str) -> list[Listed]:
    """The files of a `list` or `glob` result; folders, links and remarks in brackets are passed over."""
    rows = (_LISTED.fullmatch(line) for line in whole_lines(text) if not line.startswith("["))
    found = [Listed(row["path"], int(row["size"]) if row["size"] else None) for row in rows if row]
    return [file for file in found if not file.path.endswith(("/", ")"))]


def listed_in_all(text: str, shown: int) -> int:
    """How many files there are, of which a listing shows some."""
    remark = _SHOWN.search(text)
    return int(remark["all"]) if remark else shown


def parse_hits(text: str, limits: Limits) -> list[Place]:
    """The places of a `grep` result."""
    rows = (_HIT.fullmatch(line) for line in whole_lines(text) if not line.startswith("["))
    return [Place(row["path"], int(row["line"]), excerpt(row["text"], limits)) for row in rows if row]


def parse_lines(text: str) -> list[tuple[int, str]]:
    """The numbered lines of a `read` result."""
    rows = (_NUMBERED.fullmatch(line) for line in whole_lines(text))
    return [(int(row["number"]), row["text"]) for row in rows if row]


def goes_on(text: str) -> bool:
    """Whether a `read` result says that its file has more."""
    return "[the file goes on" in text[-400:]


def excerpt(line: str, limits: Limits) -> str:
    return quotable(line)[: limits.explorer_excerpt_characters].rstrip()
