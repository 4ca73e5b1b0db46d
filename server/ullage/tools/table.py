"""Every tool there is: how it is described, what it takes, and what does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from ullage.core.messages import Op
from ullage.core.ports import Intent, Tell, ToolOutcome, ToolSpec
from ullage.tools.apply_patch import apply_patch
from ullage.tools.arguments import (
    Arguments,
    BashArguments,
    EditArguments,
    GlobArguments,
    GrepArguments,
    JobOutputArguments,
    JobStopArguments,
    ListArguments,
    PatchArguments,
    ReadArguments,
    ReadOutputArguments,
    RecallArguments,
    TodoArguments,
    WriteArguments,
    schema_of,
)
from ullage.tools.bash import bash, command_intent, job_output, job_stop
from ullage.tools.changing import Plan
from ullage.tools.edit import edit
from ullage.tools.glob import glob
from ullage.tools.grep import grep
from ullage.tools.job import Job
from ullage.tools.list import list_entries
from ullage.tools.patch import FORMAT
from ullage.tools.read import read
from ullage.tools.read_output import read_output
from ullage.tools.recall import recall
from ullage.tools.todo import todo
from ullage.tools.write import write
from ullage.workspace.commands import Commands
from ullage.workspace.sandbox import Sandbox, described


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that changes nothing."""

    description: str
    arguments: type[Arguments]
    run: Callable[[Job, Any], ToolOutcome]
    op: Op


@dataclass(frozen=True, slots=True)
class WriteTool:
    """A tool that changes files: what it answers is a plan, which is carried out, or only looked at."""

    description: str
    arguments: type[Arguments]
    plan: Callable[[Job, Any], Plan]


@dataclass(frozen=True, slots=True)
class CommandTool:
    """A tool that has to do with commands. `intent`: it starts one, and this is what a person decides on."""

    description: str
    arguments: type[Arguments]
    run: Callable[[Commands, Any, Tell], Awaitable[ToolOutcome]]
    intent: Callable[[Any], Intent] | None = None

    @property
    def changes(self) -> bool:
        """Whether it starts a command."""
        return self.intent is not None


TOOLS = {
    "glob": Tool("Find files by path pattern. Ignored files are left out.", GlobArguments, glob, Op.SEARCH),
    "grep": Tool(
        "Search the text of files with a regular expression. Gives path, line number and line.",
        GrepArguments,
        grep,
        Op.SEARCH,
    ),
    "list": Tool("List a folder, or all files below it, with sizes in bytes.", ListArguments, list_entries, Op.SEARCH),
    "read": Tool("Read lines of a text file, each with its number.", ReadArguments, read, Op.READ),
    "read_output": Tool(
        "Read more of an earlier tool result that was shortened.", ReadOutputArguments, read_output, Op.READ
    ),
    "recall": Tool(
        "Search this whole conversation by words, also what is no longer in your context or was shortened.",
        RecallArguments,
        recall,
        Op.SEARCH,
    ),
    "todo": Tool("Write down what is to do, for work of several steps. It is kept.", TodoArguments, todo, Op.OTHER),
}

WRITE_TOOLS = {
    "apply_patch": WriteTool(f"Change several places of several files. {FORMAT}", PatchArguments, apply_patch),
    "edit": WriteTool(
        "Replace exact texts of a file that was read. Encoding and line ends stay as they are.", EditArguments, edit
    ),
    "write": WriteTool("Make a file, or replace all of one that was read.", WriteArguments, write),
}

COMMAND_TOOLS = {
    "bash": CommandTool(
        "Run a command line with bash in the workspace's root. There is no terminal and nothing to read on standard "
        "input; each call begins with a fresh environment in the root.",
        BashArguments,
        bash,
        command_intent,
    ),
    "job_output": CommandTool("Show what a job printed since you last looked.", JobOutputArguments, job_output),
    "job_stop": CommandTool("End a job and all that it started.", JobStopArguments, job_stop),
}


def tool_specs(*, writes: bool = False, sandbox: Sandbox | None = None) -> tuple[ToolSpec, ...]:
    """Every tool as the model is told of it, sorted by name; those that change files or run commands only where such
    calls may be allowed. Commands run in `sandbox`, be it one that is off; without any there are none."""
    specs = [_spec(name, tool) for name, tool in TOOLS.items()]
    specs += [_spec(name, tool, changes=True) for name, tool in WRITE_TOOLS.items() if writes]
    for name, tool in COMMAND_TOOLS.items() if sandbox is not None else ():
        holds = f" {described(sandbox)}" if tool.changes and sandbox is not None else ""
        specs.append(_spec(name, replace(tool, description=tool.description + holds), changes=tool.changes))
    return tuple(sorted(specs, key=lambda spec: spec.name))


def _spec(name: str, tool: Tool | WriteTool | CommandTool, *, changes: bool = False) -> ToolSpec:
    return ToolSpec(name, tool.description, schema_of(tool.arguments), changes)
