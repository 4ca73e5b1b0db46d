"""The offline explorer: it finds what is there, says where, outlives compactions, and ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ullage.context.ledger import HEADINGS
from ullage.context.replacement import head_blocks
from ullage.context.shorten import clip
from ullage.core.context import Replacement, RestoredFile, Word
from ullage.core.matching import Query
from ullage.core.messages import BlobRef, Role, Text, ToolCall, ToolResult
from ullage.core.ports import Answer, Recalled, Tools
from ullage.core.requests import Request, RequestMessage, RequestTool
from ullage.providers.explorer import Explorer
from ullage.providers.exploring import survey
from ullage.providers.limits import Limits
from ullage.providers.measure import parts_tokens, request_tokens
from ullage.providers.tokens import ApproximateCounter
from ullage.tools.toolbox import Toolbox
from ullage.workspace.root import WorkspaceRoot

COUNT = ApproximateCounter().count
ALL = ("glob", "grep", "list", "read")


# --- a workspace in memory, in the words of the real tools ---


def source(number: int) -> str:
    lines = [f"def function_{number}_{line}(argument):  # does what its name says" for line in range(120)]
    lines[40] = f"    # TODO: think about number {number}"
    return "\n".join(lines)


def project(modules: int) -> dict[str, str]:
    files = {f"src/module_{number:02}.py": source(number) for number in range(modules)}
    files["src/main.py"] = 'import sys\n\n\nif __name__ == "__main__":\n    sys.exit(0)\n'
    files["tests/test_main.py"] = "import main\n\n\ndef test_it_runs():\n    assert main\n"
    files["README.md"] = "# A project\n\nIt does things.\n"
    files["logo.png"] = "\x89PNG"
    return files


@dataclass(frozen=True)
class FakeTools:
    files: Mapping[str, str]

    def run(self, call: ToolCall) -> ToolResult:
        arguments = json.loads(call.arguments)
        run: Callable[..., str | None] = getattr(self, f"_{call.name}")
        text = run(**arguments)
        return ToolResult(call.call_id, text or "no such thing", is_error=text is None)

    def _list(self, path: str, recursive: bool, limit: int) -> str:
        rows = [f"{name}  {len(text)}" for name, text in sorted(self.files.items()) if self._below(path, name)]
        return "\n".join(rows[:limit]) or "[nothing here, or all of it is ignored]"

    def _glob(self, pattern: str, limit: int, path: str = ".") -> str:
        core = re.escape(pattern.removeprefix("**/")).replace(r"\*", ".*")
        rows = [name for name in sorted(self.files) if self._below(path, name) and re.search(core, name)]
        return "\n".join(rows[:limit]) or "[no file matches]"

    def _grep(self, pattern: str, path: str, limit: int, ignore_case: bool = False) -> str:
        wanted = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        rows = [
            f"{name}:{number}: {line}"
            for name, text in sorted(self.files.items())
            for number, line in enumerate(text.split("\n"), 1)
            if self._below(path, name) and wanted.search(line)
        ]
        return "\n".join(rows[:limit]) or "[no line matches]"

    def _read(self, path: str, first_line: int, lines: int) -> str | None:
        every = self.files.get(path, "").split("\n")
        if path not in self.files or first_line > len(every):
            return None
        last = min(len(every), first_line + lines - 1)
        rows = [f"{number:>6}\t{every[number - 1]}" for number in range(first_line, last + 1)]
        more = [f"[the file goes on; read on with first_line {last + 1}]"] if last < len(every) else []
        return "\n".join(rows + more)

    @staticmethod
    def _below(path: str, name: str) -> bool:
        return path == "." or name.startswith(path + "/")


def nothing_recalled(text: str, limit: int, stop: object) -> Recalled:
    return Recalled(Query(()), ())


class NoBlobs:
    """Nothing is kept: no result here is shortened."""

    def put(self, content: bytes) -> BlobRef:
        raise AssertionError(content)

    def get(self, ref: BlobRef) -> bytes | None:
        raise AssertionError(ref)

    def has(self, ref: BlobRef) -> bool:
        raise AssertionError(ref)


# --- a session in memory ---


@dataclass
class Session:
    """Runs turns. At `compact_at` tokens the messages are replaced by `summary(session)` and the newest `keep`."""

    files: Mapping[str, str]
    limits: Limits = field(default_factory=Limits)
    tools: tuple[str, ...] = ALL
    compact_at: int = 1_000_000
    keep: int = 2
    cut_to: int = 0
    """Characters to which a compaction shortens the results it keeps; 0: not at all."""
    lossy: bool = False
    toolbox: Tools | None = None
    runs: FakeTools | None = None
    messages: list[RequestMessage] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    compactions: int = 0

    async def prompt(self, text: str) -> str:
        """One turn; the text of its last answer."""
        self.prompts.append(text)
        self._add(Role.USER, Text(text))
        while True:
            answer = await self._step()
            calls = [part for part in answer.parts if isinstance(part, ToolCall)]
            self.messages.append(RequestMessage(Role.ASSISTANT, answer.parts))
            if not calls:
                return self.said[-1]
            self._add(Role.USER, *[await self._run(call) for call in calls])

    async def _run(self, call: ToolCall) -> ToolResult:
        if self.toolbox is None:
            return (self.runs or FakeTools(self.files)).run(call)
        outcome = await self.toolbox.run(call.name, call.arguments)
        return ToolResult(call.call_id, outcome.text, outcome.is_error)

    @property
    def said(self) -> list[str]:
        return [part.text for answer in self.answers for part in answer.parts if isinstance(part, Text)]

    @property
    def calls(self) -> list[ToolCall]:
        return [part for answer in self.answers for part in answer.parts if isinstance(part, ToolCall)]

    async def _step(self) -> Answer:
        assert len(self.answers) < 500, "it does not end"
        if self.answers and request_tokens(self._request(), COUNT) > self.compact_at:
            self._compact()
        events = [event async for event in Explorer(ApproximateCounter(), self.limits).stream(self._request())]
        answer = events[-1]
        assert isinstance(answer, Answer)
        self.answers.append(answer)
        return answer

    def _request(self) -> Request:
        tools = tuple(RequestTool(name, "", "{}") for name in self.tools)
        return Request("explorer", "Be good.", tools, tuple(self.messages), 1_200, 0)

    def _compact(self) -> None:
        self.compactions += 1
        tail = [self._shortened(message) for message in self.messages[-self.keep :]] if self.keep else []
        sections = dict.fromkeys(HEADINGS, "- No evidence.")
        reads = list(dict.fromkeys(json.loads(c.arguments)["path"] for c in self.calls if c.name == "read"))
        sections[HEADINGS[2]] = "\n".join(["Files read, newest first:", *(f"- {path}" for path in reversed(reads))])
        if not self.lossy:
            sections[HEADINGS[-1]] = "- Last said: " + clip(self.said[-1], 1_200)
        summary = "\n".join(f"## {heading}\n{text}" for heading, text in sections.items())
        words = tuple(Word(str(number), prompt) for number, prompt in enumerate(self.prompts))
        files = (RestoredFile(reads[-1], self.files[reads[-1]], False),) if reads else ()
        replacement = Replacement(summary, words[-1:], words[:-1], files, "fence", (), 0)
        self.messages = [RequestMessage(Role.USER, head_blocks(replacement)), *tail]

    def _shortened(self, message: RequestMessage) -> RequestMessage:
        if not self.cut_to:
            return message
        blocks = (
            replace(b, text=clip(b.text, self.cut_to)) if isinstance(b, ToolResult) else b for b in message.blocks
        )
        return RequestMessage(message.role, tuple(blocks))

    @property
    def reads(self) -> list[str]:
        """Every path that was read from its first line."""
        asked = [json.loads(call.arguments) for call in self.calls if call.name == "read"]
        return [arguments["path"] for arguments in asked if arguments["first_line"] == 1]

    def _add(self, role: Role, *blocks: Text | ToolResult) -> None:
        if self.messages and self.messages[-1].role is role:
            blocks = (*self.messages.pop().blocks, *blocks)  # type: ignore[assignment]
        self.messages.append(RequestMessage(role, blocks))


def check_citations(report: str, files: Mapping[str, str]) -> set[str]:
    """Every `path:line excerpt` stands there in that file; gives the paths."""
    cited = re.findall(r"`([^`]+?):(\d+) ([^`]*)`", report)
    for path, line, excerpt in cited:
        assert " ".join(files[path].split("\n")[int(line) - 1].split()).startswith(excerpt), (path, line, excerpt)
    return {path for path, _, _ in cited}


def check_honest(session: Session) -> None:
    """No answer above its limit, and each reports what it took."""
    for answer in session.answers:
        spent = parts_tokens(answer.parts, COUNT)
        assert spent == answer.usage.completion
        assert spent <= session.limits.explorer_answer_tokens


# --- a report ---


async def test_it_reports_languages_entry_points_todos_tests_and_sizes() -> None:
    session = Session(project(4))
    report = await session.prompt("Have a look at this project.")
    assert {"src/main.py", "tests/test_main.py", "src/module_00.py"} <= check_citations(report, session.files)
    assert "`src/main.py:4 if __name__" in report
    assert "`src/module_00.py:41 # TODO: think about number 0`" in report
    assert "`tests/test_main.py:4 def test_it_runs():`" in report
    assert "`Python 6`" in report
    assert f"`src/module_03.py {len(source(3))} bytes`" in report
    check_honest(session)


async def test_it_reads_every_file_once_and_images_never() -> None:
    session = Session(project(4))
    await session.prompt("Go.")
    reads = [json.loads(call.arguments) for call in session.calls if call.name == "read"]
    assert {read["path"] for read in reads} == set(session.files) - {"logo.png"}
    assert len({(read["path"], read["first_line"]) for read in reads}) == len(reads)


async def test_reads_run_side_by_side() -> None:
    session = Session(project(4))
    await session.prompt("Go.")
    assert any(len([p for p in answer.parts if isinstance(p, ToolCall)]) == 2 for answer in session.answers)


async def test_the_same_workspace_gets_the_same_answers() -> None:
    first, second = Session(project(3)), Session(project(3))
    assert await first.prompt("Go.") == await second.prompt("Go.")
    assert first.said == second.said


@pytest.mark.parametrize("missing", [("list",), ("list", "glob"), ("grep",), ("read",), ALL])
async def test_a_missing_tool_is_done_without(missing: tuple[str, ...]) -> None:
    tools = tuple(tool for tool in ALL if tool not in missing)
    session = Session(project(3), tools=tools)
    report = await session.prompt("Go.")
    assert {call.name for call in session.calls} <= set(tools)
    if tools:
        check_citations(report, session.files)
    if "read" in tools:
        assert "src/module_00.py:41" in report


async def test_an_empty_workspace_ends_at_once() -> None:
    session = Session({})
    assert "0 files" in await session.prompt("Go.")
    assert len(session.answers) <= 3


async def test_it_understands_the_real_tools(tmp_path: Path) -> None:
    """Their texts are parsed, their schemas are met: no call is refused, and the report says the same."""
    for name, text in project(4).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with WorkspaceRoot.open(str(tmp_path)) as root:
        session = Session(project(4), toolbox=Toolbox(root, NoBlobs(), tuple, nothing_recalled))
        report = await session.prompt("Go.")
    results = [block for message in session.messages for block in message.blocks if isinstance(block, ToolResult)]
    assert [result.text for result in results if result.is_error] == []
    assert report == await Session(project(4)).prompt("Go.")


# --- through compactions ---


@pytest.mark.parametrize("keep", [2, 0], ids=["newest unit kept", "all replaced"])
async def test_compactions_cost_it_nothing_but_time(keep: int) -> None:
    """Notes in the tail or in the digest carry it on: nothing is read twice, everything is read, it reports."""
    session = Session(project(16), compact_at=9_000, keep=keep)
    report = await session.prompt("Explore.")
    assert session.compactions >= 3
    reads = [
        (json.loads(c.arguments)["path"], json.loads(c.arguments)["first_line"])
        for c in session.calls
        if c.name == "read"
    ]
    assert len(set(reads)) == len(reads)
    assert {path for path, _ in reads} == set(session.files) - {"logo.png"}
    assert {"src/main.py", "tests/test_main.py"} <= check_citations(report, session.files)
    check_honest(session)


@pytest.mark.parametrize("keep", [2, 0], ids=["newest unit kept", "all replaced"])
@pytest.mark.parametrize(
    ("prompts", "place"),
    [
        (("find function_1_7", "Explore."), "src/module_01.py:41 # TODO"),
        (("look at src/", "where is function_1_7?"), "src/module_01.py:8 def function_1_7"),
        (("Explore.", "look at tests/"), "tests/test_main.py:4 def test_it_runs():"),
    ],
)
async def test_a_compaction_at_every_step_keeps_the_aim(keep: int, prompts: tuple[str, str], place: str) -> None:
    """Neither an older prompt nor the repeated task makes the work begin anew; without results it still ends."""
    session = Session(project(3), compact_at=0, keep=keep, limits=Limits(explorer_files=2, explorer_steps=20))
    await session.prompt(prompts[0])
    before = len(session.answers)
    if keep:
        assert place in await session.prompt(prompts[1])
    else:
        await session.prompt(prompts[1])
    assert len(session.answers) - before <= 20


async def test_older_prompts_quoted_by_a_summary_ask_for_nothing() -> None:
    session = Session(project(3), compact_at=0, keep=0, limits=Limits(explorer_steps=20))
    await session.prompt("find function_1_7")
    count = len(session.calls)
    await session.prompt("Explore.")
    assert not [call for call in session.calls[count:] if "function_1_7" in call.arguments]


async def test_a_summary_without_notes_ends_in_a_report_rather_than_a_new_start() -> None:
    """Starting anew would read the same files for ever; "continue" goes on behind those the digest names."""
    session = Session(project(16), compact_at=9_000, keep=0, lossy=True)
    assert "did not outlive" in await session.prompt("Explore.")
    before = {json.loads(call.arguments)["path"] for call in session.calls if call.name == "read"}
    count = len(session.calls)
    session.compact_at = 1_000_000
    await session.prompt("continue")
    after = {json.loads(call.arguments)["path"] for call in session.calls[count:] if call.name == "read"}
    assert after
    assert not before & after


async def test_it_ends_even_where_every_result_is_lost() -> None:
    session = Session(project(8), compact_at=0, keep=0, limits=Limits(explorer_steps=20))
    await session.prompt("Explore.")
    assert len(session.answers) == 20


async def test_a_file_cannot_pass_for_its_notes() -> None:
    files = project(2) | {"README.md": "Step: `59`. Plan: `done`. After: `zzz`. Files: `9 read`, `9 listed`.\n"}
    session = Session(files)
    assert "src/module_01.py:41" in await session.prompt("Explore.")


async def test_an_unknown_outcome_is_asked_for_again() -> None:
    """After a crash the host answers an open call with "outcome unknown"; nothing was read then."""
    session = Session(project(2))
    await session.prompt("Explore.")
    index = next(
        i for i, a in enumerate(session.answers) if any(p.name == "read" for p in a.parts if isinstance(p, ToolCall))
    )
    calls = [part for part in session.answers[index].parts if isinstance(part, ToolCall)]
    cut = session.messages[: 2 * index + 2]
    lost = tuple(ToolResult(call.call_id, "The outcome of this call is unknown.", is_error=True) for call in calls)
    session.messages = [*cut, RequestMessage(Role.USER, lost)]
    again = await session._step()
    assert [p.arguments for p in again.parts if isinstance(p, ToolCall)] == [call.arguments for call in calls]


@pytest.mark.parametrize("compact_at", [0, 4_000, 7_000])
async def test_shortened_results_are_never_misread(compact_at: int) -> None:
    """Half a path is no path, and a listing that a compaction cut makes nobody skip what it leaves out."""
    files = project(8) | {f"docs/part_{number:02}/a_rather_long_name_{number:02}.md": "words\n" for number in range(40)}
    session = Session(files, compact_at=compact_at, cut_to=900)
    for text in ("Explore.", *["continue"] * 3):
        await session.prompt(text)
    assert session.compactions >= 4
    assert set(session.reads) <= set(files)
    assert len(set(session.reads)) == len(session.reads)
    if compact_at:  # else no listing ever comes through whole
        assert set(session.reads) == set(files) - {"logo.png"}


# --- bounds ---


async def test_follow_ups_go_on_until_everything_was_read() -> None:
    files = {f"src/part_{number % 7}/module_{number:03}.py": f"x = {number}\n" for number in range(187)}
    session = Session(files, compact_at=9_000, cut_to=1_500)
    reports = [await session.prompt(text) for text in ("Explore.", *["Go on: read files you have not yet."] * 5)]
    progress = [report.splitlines()[-1].split("`")[1] for report in reports]
    assert progress == [f"{count} of 187" for count in (40, 80, 120, 160, 187, 187)]
    assert sorted(session.reads) == sorted(files)


async def test_the_first_files_come_from_every_folder() -> None:
    files = {f"src/part_{number % 7}/module_{number:03}.py": f"x = {number}\n" for number in range(187)}
    files |= {"README.md": "# It\n", "tests/test_it.py": "def test_it(): ...\n", "src/part_0/__init__.py": ""}
    session = Session(files, limits=Limits(explorer_files=9))
    await session.prompt("Explore.")
    assert session.reads[0] == "README.md"
    assert {path.rpartition("/")[0] for path in session.reads} == {path.rpartition("/")[0] for path in files}


async def test_everything_again_begins_anew() -> None:
    session = Session(project(2))
    await session.prompt("Explore.")
    await session.prompt("Read everything again, from the start.")
    assert session.reads == [*session.reads[: len(session.reads) // 2]] * 2


async def test_a_listing_that_is_always_cut_is_made_do_with() -> None:
    """A listing longer than a result may be: what is shown of it is read once."""
    files = {f"{'d' * 60}/{number:03}.py": "x = 1\n" for number in range(60)}

    class Cutting(FakeTools):
        def run(self, call: ToolCall) -> ToolResult:
            result = super().run(call)
            return replace(result, text=clip(result.text, 1_500))

    session = Session(files, runs=Cutting(files))
    report = await session.prompt("Explore.")
    assert set(session.reads) <= set(files)
    assert 15 <= len(set(session.reads)) == len(session.reads) < 60
    assert "Progress" in report


async def test_a_prompt_reads_at_most_so_many_files_and_the_next_one_goes_on() -> None:
    session = Session(project(12), limits=Limits(explorer_files=5))
    assert "continue" in await session.prompt("Explore.")
    first = {json.loads(call.arguments)["path"] for call in session.calls if call.name == "read"}
    count = len(session.calls)
    await session.prompt("continue")
    second = {json.loads(call.arguments)["path"] for call in session.calls[count:] if call.name == "read"}
    assert len(first) == len(second) == 5
    assert not first & second


async def test_long_paths_and_lines_stay_inside_the_limit() -> None:
    files = {
        f"{'d' * 90}/{'e' * 90}/{number:02}.py": f"# TODO {'x' * 500}\ndef test_{'y' * 500}():\n" for number in range(9)
    }
    session = Session(files | {"f" * 300 + ".py": "# TODO unnamed"})
    await session.prompt("Explore.")
    check_honest(session)
    assert all("f" * 300 not in call.arguments for call in session.calls)


async def test_a_small_output_limit_cuts_the_answer() -> None:
    tools = tuple(RequestTool(name, "", "{}") for name in ALL)
    request = Request("explorer", "", tools, (RequestMessage(Role.USER, (Text("Go."),)),), 20, 0)
    answer = [event async for event in Explorer(ApproximateCounter()).stream(request)][-1]
    assert isinstance(answer, Answer)
    assert answer.stop == "max_tokens"
    assert parts_tokens(answer.parts, COUNT) <= 20


# --- questions and follow-ups ---


@pytest.mark.parametrize(
    ("prompt", "place"),
    [
        ("Where is function_1_7 defined?", "src/module_01.py:8"),
        ("find `think about number 2`", "src/module_02.py:41"),
        ("Please look for the test_it_runs", "tests/test_main.py:4"),
        ("where is logo", "logo.png:1"),
    ],
)
async def test_a_question_is_searched_for(prompt: str, place: str) -> None:
    session = Session(project(3))
    report = await session.prompt(prompt)
    assert f"`{place}" in report
    assert len(session.answers) <= 3


async def test_what_is_nowhere_is_said_to_be_nowhere() -> None:
    assert "no trace of" in await Session(project(1)).prompt("Where is the holy_grail?")


async def test_a_follow_up_names_a_folder() -> None:
    session = Session(project(4), limits=Limits(explorer_files=2))
    await session.prompt("Explore.")
    count = len(session.calls)
    await session.prompt("Look deeper at tests/")
    reads = [json.loads(call.arguments)["path"] for call in session.calls[count:] if call.name == "read"]
    assert reads == ["tests/test_main.py"]


async def test_after_a_question_continue_explores() -> None:
    session = Session(project(2))
    await session.prompt("Where is function_1_7?")
    assert "src/module_00.py:41" in await session.prompt("continue")


async def test_steering_changes_the_aim_in_the_middle_of_a_turn() -> None:
    session = Session(project(4), limits=Limits(explorer_files=2))
    session._add(Role.USER, Text("Explore."))
    answer = await session._step()
    session.messages.append(RequestMessage(Role.ASSISTANT, answer.parts))
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    session._add(Role.USER, *map(FakeTools(session.files).run, calls))
    assert "`src/module_01.py:8 def function_1_7" in await session.prompt("find function_1_7")


# --- words ---


@pytest.mark.parametrize(
    ("line", "find"),
    [
        ("# TODO: later", survey.Find.TODO),
        ("    x = 1  // FIXME(me) now", survey.Find.TODO),
        ("todos = TODO", None),
        ("TODO = 1", None),
        ("func main() {", survey.Find.ENTRY),
        ("[project.scripts]", survey.Find.ENTRY),
        ("    async def test_it(self):", survey.Find.TEST),
        ('  it("does", () => {', survey.Find.TEST),
        ("def tester():", None),
    ],
)
def test_a_line_is_judged(line: str, find: survey.Find | None) -> None:
    assert survey.judge(line) is find


def test_lines_beside_a_cut_are_not_trusted() -> None:
    """A cutter that knows nothing of lines leaves half a path on either side of its note."""
    text = "a.py  1\nb.p\n[… 90 characters left out …]\nalk.py  7\nc.py  2\n[2 of 9 entries are shown; more below]"
    assert [(file.path, file.size) for file in survey.parse_listing(text)] == [("a.py", 1), ("c.py", 2)]
    assert survey.is_cut(text)
    assert survey.listed_in_all(text, 2) == 9
