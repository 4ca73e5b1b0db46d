"""The context engine, and its server-free API: `Conversation` and what it gives back.

Importing this package loads nothing; a name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ullage.context.conversation import Compacted as Compacted
    from ullage.context.conversation import Conversation as Conversation
    from ullage.context.conversation import conversation_of as conversation_of
    from ullage.context.settle import settled as settled


def __getattr__(name: str) -> Any:
    if name in ("Compacted", "Conversation", "conversation_of"):
        from ullage.context import conversation

        return getattr(conversation, name)
    if name == "settled":
        from ullage.context import settle

        return settle.settled
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
