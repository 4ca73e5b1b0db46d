"""What each tool may be asked. The schemas that models see are generated from these classes."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.core.errors import BadInput
from ullage.core.messages import clean_text


class Arguments(BaseModel):
    """Base of all arguments: frozen, and a name nobody knows is an error rather than silently dropped."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ReadArguments(Arguments):
    path: str = Field(description="File, relative to the workspace folder.")
    first_line: int = Field(1, ge=1, description="First line to show, counting from 1.")
    lines: int = Field(500, ge=1, description="How many lines to show.")


class ListArguments(Arguments):
    path: str = Field(".", description="Folder, relative to the workspace folder.")
    recursive: bool = Field(False, description="True for all files below, with sizes; false for this folder.")
    limit: int = Field(200, ge=1, description="Most entries to show.")


class GlobArguments(Arguments):
    pattern: str = Field(
        min_length=1,
        description="Such as '**/*.py' or 'src/*.{ts,tsx}'. A pattern without '/' is looked for at any depth.",
    )
    path: str = Field(".", description="Folder the pattern starts from.")
    limit: int = Field(200, ge=1, description="Most paths to show.")


class GrepArguments(Arguments):
    pattern: str = Field(min_length=1, description="Regular expression (Python syntax), matched line by line.")
    path: str = Field(".", description="Folder or file to search.")
    glob: str | None = Field(None, min_length=1, description="Only files whose path matches this pattern.")
    ignore_case: bool = Field(False, description="True to match upper and lower case alike.")
    limit: int = Field(100, ge=1, description="Most hits to show.")


class ReadOutputArguments(Arguments):
    reference: str = Field(pattern="^[0-9a-f]{64}$", description="The reference (sha256) named in a shortened result.")
    offset: int = Field(0, ge=0, description="First character to show, counting from 0.")
    characters: int = Field(16000, ge=1, description="How many characters to show.")


class RecallArguments(Arguments):
    query: str = Field(min_length=1, max_length=2000, description='Words to look for; a phrase in "double quotes".')
    limit: int = Field(5, ge=1, description="Most passages to show, at most 20; fewer are shown longer.")


class BashArguments(Arguments):
    command: str = Field(min_length=1, max_length=100_000, description="Command line for bash.")
    timeout: float | None = Field(None, gt=0, description="Seconds it may run, where the usual limit is too long.")
    background: bool = Field(
        False, description="True for what runs on by itself, such as a server: gives the name of a job at once."
    )
    description: str = Field("", max_length=200, description="What it is for, in a few words, for who is asked.")


class JobOutputArguments(Arguments):
    job: str = Field(max_length=40, description="Name of the job, such as 'job-1'.")
    wait: float = Field(0, ge=0, description="Seconds to wait for its end, at most.")


class JobStopArguments(Arguments):
    job: str = Field(max_length=40, description="Name of the job, such as 'job-1'.")


class WriteArguments(Arguments):
    path: str = Field(description="File, relative to the workspace folder. Folders that are missing are made.")
    content: str = Field(description="All of its content.")


class Edit(Arguments):
    old_text: str = Field(min_length=1, description="Text as it stands in the file, in one place unless all is true.")
    new_text: str = Field(description="What shall stand there.")
    all: bool = Field(False, description="True to replace it wherever it stands.")


class EditArguments(Arguments):
    path: str = Field(description="File, relative to the workspace folder.")
    edits: tuple[Edit, ...] = Field(min_length=1, max_length=200, description="Made in this order, all or none.")


class PatchArguments(Arguments):
    patch: str = Field(min_length=1, description="The patch, from '*** Begin Patch' to '*** End Patch'.")


class TodoItem(Arguments):
    text: str = Field(min_length=1, max_length=500, description="What is to do.")
    status: Literal["pending", "active", "done"] = Field("pending", description="How it stands.")


class TodoArguments(Arguments):
    items: tuple[TodoItem, ...] = Field(max_length=64, description="The whole list; it replaces the one before.")


A = TypeVar("A", bound=Arguments)


def parse_arguments(kind: type[A], name: str, raw: str) -> A:
    """Read a call's raw JSON; no text at all means no arguments, as some servers write it.

    Raises:
        BadInput: says which argument is wrong and what is expected.
    """
    try:
        return kind.model_validate_json(clean_text(raw).strip() or "{}")
    except ValidationError as error:
        faults = "; ".join(_fault(dict(detail)) for detail in error.errors(include_url=False)[:5])
    raise BadInput(
        f"Bad arguments for '{name}': {faults}.",
        hint=f"Expected a JSON object with {_expected(kind)}.",
        code="bad_arguments",
    )


def schema_of(kind: type[Arguments]) -> dict[str, Any]:
    """JSON Schema of the arguments, keys sorted and generated titles left out, so that its text never changes."""
    sorted_schema = _sorted(kind.model_json_schema())
    assert isinstance(sorted_schema, dict)
    sorted_schema.pop("description", None)
    return sorted_schema


def _sorted(value: Any) -> Any:
    match value:
        case dict():
            return {key: _sorted(value[key]) for key in sorted(value) if not _is_title(key, value[key])}
        case list():
            return [_sorted(item) for item in value]
        case _:
            return value


def _is_title(key: str, value: Any) -> bool:
    return key == "title" and isinstance(value, str)


def _fault(detail: dict[str, Any]) -> str:
    where = ".".join(str(step) for step in detail["loc"])
    return f"{where}: {detail['msg']}" if where else str(detail["msg"])


def _expected(kind: type[Arguments]) -> str:
    fields = kind.model_fields.items()
    return ", ".join(f"'{name}'" + (" (required)" if field.is_required() else "") for name, field in fields)
