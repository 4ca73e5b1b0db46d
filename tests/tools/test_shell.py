"""Reading command lines, and what may run without being asked about (S1, row 54)."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ullage.tools.shell import Redirection, ShellLine, SimpleCommand, UnknownShape, parse_shell
from ullage.tools.shell_rules import Allow, Ask, ShellRules, shell_verdict


def shape(line: str) -> str | None:
    """A known line as text, None for an unknown one."""
    read = parse_shell(line)
    if isinstance(read, UnknownShape):
        assert read.why
        return None
    parts = (
        "+".join(part.words) if isinstance(part, SimpleCommand) else f"{part.operator}{part.target}"
        for part in read.parts
    )
    return " ".join(parts)


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("git status", "git+status"),
        ("git status && ls -la 'a b' | wc -l; true &", "git+status ls+-la+a b wc+-l true"),
        ("(cd a; ls) || { ls b; }", "cd+a ls ls+b"),
        ("a\"b c\"'d' x=y 5", "ab cd+x=y+5"),
        ("! test ! -f x", "test+!+-f+x"),
        ("ls\nls b\n", "ls ls+b"),
        ("make >log 2>&1 </dev/null", "make >log </dev/null"),
        ("2>e ls >>f &>g", ">e ls >>f &>g"),
        ("echo 1 2>3", "echo+1 >3"),
        ("echo a >f b", None),
        ("grep -n 'a*b$' größe.txt", "grep+-n+a*b$+größe.txt"),
        ("ls ''", "ls+"),
        ("'git' status", "git+status"),
    ],
)
def test_known_shapes(line: str, known: str | None) -> None:
    assert shape(line) in (known, None) and (known is None or shape(line) == known)


UNKNOWN = [
    *("", " ", "#", "ls #x", "ls $HOME", "ls ${x}", "ls $(rm b)", "ls `rm b`", "ls <(rm b)", "ls $((1))"),
    *("ls *.py", "ls a?", "ls [ab]", "ls {a,b}", "ls ~", "ls ~/x", "ls a\\ b", "ls $'a'", 'ls "$x"', 'ls "`x`"'),
    *("X=1", "X=1 ls", "PATH=. ls", "a=(b)", "cat <<E\nx\nE", "cat <<<x", "if a; then b; fi", "for i in a; do b; done"),
    *("while a; do b; done", "case a in b) c;; esac", "f() { ls; }", "function f { ls; }", "[[ -f x ]]", "((1))"),
    *("coproc ls", "ls |", "ls &&", "ls (", "ls )", "ls 'a", 'ls "a', "ls >", "ls > $x", "ls >&-", "ls {a"),
    *("ls\r", "ls\r\nrm b", "ls\u00a0b", "ls\u200b", "ls \u202eb", "ls\x00", "ls\x1b[2K", "ls\u2028rm", "ls 'a\nb'"),
    *("select i in a; do b; done", "until a; do b; done", "ls " + "a" * 10_000, "(" * 3_000 + "ls" + ")" * 3_000),
    *(
        "[ -f x ]",
        "ls \\\n-l",
        "\ud800",
        'ls "a\\"b"',
        'ls "!x"',
        "ls $",
        "time ls",
        "time -p ls",
        "a <> b <> $c",
        "export X=1",
        "declare X=1",
    ),
]


@pytest.mark.parametrize("line", UNKNOWN)
def test_unknown_shapes(line: str) -> None:
    assert shape(line) is None


_LETTERS = [
    *"aab  \"\"''\\;&|><(){}!#=\n$`-12*~[]/.:é\t,%^@+",
    *(" && ", " || ", "; ", " | ", " >a ", "show ", "time ", "coproc ", "! "),
]
_ORACLE = """
set +H
command_not_found_handle() { local IFS=$'\\037'; printf '%s\\037\\036' "$*"; }
show() { command_not_found_handle show "$@"; }
while IFS= read -r -d '' line; do
    ( eval "$line"; wait ) 2>/dev/null </dev/null
    printf '\\035'
done
"""


def ran_by_bash(lines: list[str], folder: Path) -> list[set[tuple[str, ...]]]:
    """What bash runs of each line, of programs that do not exist; output that a line redirects is not seen."""
    given = "".join(f"{line}\0" for line in lines).encode()
    bash = shutil.which("bash")
    assert bash is not None
    order = [bash, "--noprofile", "--norc", "-c", _ORACLE]
    done = subprocess.run(order, input=given, cwd=folder, env={"PATH": "/nowhere"}, stdout=subprocess.PIPE, check=True)
    told = done.stdout.decode().split("\x1d")[:-1]
    assert len(told) == len(lines)
    return [{tuple(each.split("\x1f")[:-1]) for each in one.split("\x1e")[:-1]} for one in told]


def test_bash_runs_nothing_that_was_not_read(tmp_path: Path) -> None:
    """Whatever the line: what bash starts, with its arguments, is among the commands that were read."""
    chance = random.Random(20_261_130)
    lines = ["".join(chance.choices(_LETTERS, k=chance.randint(1, 14))) for _ in range(6_000)]
    lines += [f"show {line}" for line in lines]
    read = [(line, parsed) for line in lines if isinstance(parsed := parse_shell(line), ShellLine)]
    assert len(read) > 400, "else nothing is tested"
    ran = ran_by_bash([line for line, _ in read], tmp_path)
    wrong = [
        (line, run - {command.words for command in parsed.commands})
        for (line, parsed), run in zip(read, ran, strict=True)
        if run - {command.words for command in parsed.commands}
    ]
    assert not wrong
    assert sum(map(bool, ran)) > 200, "else bash ran nothing"


# --- rules ---


def protected(path: str) -> bool:
    return path.split("/")[0].casefold() in (".git", ".vscode", ".bashrc")


def verdict(line: str, *rules: str, writes: bool = False) -> Allow | Ask:
    return shell_verdict(line, ShellRules(rules, protected, lambda path: writes))


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("git status", ["git status"]),
        ("git log --oneline -5", ["git log *"]),
        ("git log", ["git log *"]),
        ("cd src && pytest -q tests/a.py 2>&1 | tail -5", ["pytest *", "tail *"]),
        ("python -m pytest -q", ["python -m pytest *"]),
        ("npm run test -- --watch", ["npm run test *"]),
        ("sed -n 1,5p a.txt", ["sed -n 1,5p a.txt"]),
        ("ls >/dev/null 2>&1", ["ls"]),
        ("grep -rn 'a b' src < in.txt", ["grep *"]),
    ],
)
def test_what_is_allowed_runs(line: str, rules: list[str]) -> None:
    assert verdict(line, *rules) == Allow()


FIRST_WORDS = [
    f"{word} *"
    for word in (
        *("echo", "ls", "cat", "git", "find", "xargs", "env", "sed", "awk", "tar", "sort", "export", "command", "cd"),
        *(
            "bash",
            "sudo",
            "nohup",
            "time",
            "timeout",
            "python3",
            "rsync",
            "rg",
            "printf",
            "eval",
            "true",
            "test",
            "read",
        ),
    )
]
"""An open rule for every first word below."""

S1 = [
    *("echo a > ~/.bashrc", "echo a; rm b", "echo $(rm b)", "echo `rm b`", "echo a && rm b", "echo a || rm b"),
    *("echo a | sh", "echo a & rm b", "echo a\nrm b", "echo a\r\nrm b", "ls <(rm b)", "cat <<E | sh\nrm b\nE"),
    *("echo a > out", "echo a >> out", "ls 2> out", "ls &> out", "ls >| out", "echo a > .git/config", "cat > /etc/x"),
    *(
        "env X=1 rm b",
        "env rm b",
        "ls | xargs rm",
        "find . -exec rm {} +",
        "find . -delete",
        "find . -execdir rm b ';'",
    ),
    *("git -c alias.x='!rm b' x", "git -c core.pager=rm log", "git --exec-path=. status", "git --help", "git status"),
    *("sed -n '1e rm b' a", "sed 's/a/b/w out' a", "awk 'BEGIN { system(\"rm b\") }'", "tar -cf a --to-command=rm b"),
    *("tar -I rm -xf a", "sort --compress-program=rm a", "rg --pre rm a", "rsync -e rm a b", "export PATH=.; ls"),
    *("command rm b", "bash -c 'rm b'", "sudo rm b", "nohup rm b", "time rm b", "timeout 5 rm b", "python3 -c 'x'"),
    *("eval rm b", "PATH=. ls", "LD_PRELOAD=./x ls", "ls\u00a0; rm b", "echo a\u200b;rm b", "echo '\u202e'"),
    *("true; " * 60 + "rm b", "true && " * 60 + "rm b", "(rm b)", "{ rm b; }", "! rm b", "if true; then rm b; fi"),
    *("f() { rm b; }; f", "cd .git && cat config", "cd .. && ls", "cat ../x", "cat /etc/passwd", "cat ~/.ssh/id"),
    *("cat .GIT/config", "git --output=.git/config log", "printf -v PATH .; ls", "cat a/../.git/config", "read x"),
    *("cd a; cd ..; cd ..; ls", "echo " + " " * 2_000 + "; rm b", "./ls", "ls -I.git/x", "ls --x=.git/x", "cd -"),
    *("git diff --output=x", "git log --ext-diff", "cd; ls", "cd a b", "[ -f x ] && rm b", "test -f x && rm b"),
]


@pytest.mark.parametrize("line", S1)
def test_s1_what_only_begins_well_is_asked_about(line: str) -> None:
    """S1, row 54: a rule on a line's first word allows no other command, no redirection and no unknown shape."""
    assert len(S1) >= 60
    found = verdict(line, *FIRST_WORDS)
    assert isinstance(found, Ask) and found.why


@pytest.mark.parametrize("rule", ["*", "", "'", "ls", "rm", "git", "ls b *", "git *", "python *", "bash -c *"])
def test_rules_that_allow_less_than_one_could_think(rule: str) -> None:
    for line in ("ls a", "rm b", "git push", "python x.py", "bash -c x"):
        assert isinstance(verdict(line, rule), Ask), line


def test_a_redirection_is_allowed_by_itself() -> None:
    assert verdict("ls > out", "ls", writes=True) == Allow()
    assert isinstance(verdict("ls > out", "ls"), Ask)
    assert isinstance(verdict("ls > .git/out", "ls", writes=True), Ask)
    assert isinstance(verdict("cd .git; ls > out", "ls", writes=True), Ask)
    assert isinstance(verdict("ls > ../out", "ls", writes=True), Ask)


def test_many_folders_end_in_a_question() -> None:
    assert isinstance(verdict("; ".join(f"cd d{n}" for n in range(1_000))), Ask)


def test_the_grammar_is_loaded_when_it_is_needed() -> None:
    code = "import sys, ullage.tools.shell_rules as r; print('tree_sitter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_is_read_says_what_it_opens() -> None:
    read = parse_shell("a >b <c")
    assert isinstance(read, ShellLine) and read.parts[1:] == (Redirection(">", "b"), Redirection("<", "c"))
