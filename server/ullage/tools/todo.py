"""`todo`: the model's own list of what is to do, a fact of the session that outlives every compaction."""

from __future__ import annotations

from ullage.core.messages import Op, Todo, Todos, TodoStatus, ToolFacts
from ullage.core.ports import ToolOutcome
from ullage.tools.arguments import TodoArguments
from ullage.tools.job import Job


def todo(job: Job, arguments: TodoArguments) -> ToolOutcome:
    """Replace the list."""
    items = tuple(Todo(" ".join(each.text.split()), TodoStatus(each.status)) for each in arguments.items)
    open_ones = sum(item.status is not TodoStatus.DONE for item in items)
    detail = f"{len(items)} entries, {open_ones} open"
    return ToolOutcome(f"The list has {detail}.", facts=ToolFacts(Op.OTHER, detail=detail, todos=Todos(items)))
