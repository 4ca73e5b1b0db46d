"""A terminal for a chat: the prompt stays below, what is said scrolls above it, and typing goes on meanwhile.

Invariant: nothing but `Out` writes here, so what stands above the prompt holds no control characters but ours, and what
is typed is kept where only its owner reads it.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.utils import get_cwidth

from ullage.cli.output import Out, Stream, may_style, visible
from ullage.cli.slash import COMMANDS
from ullage.core.errors import UllageError
from ullage.workspace.entries import Kind
from ullage.workspace.root import WorkspaceRoot

_GATHER: Final = 0.03
"""Seconds for which text is gathered before the prompt makes room for it."""
_OPEN_ROWS: Final = 3
"""Rows shown of a line that has no end yet, its last ones."""
_OPEN_LENGTH: Final = 4_000
"""Characters after which such a line is broken."""
_REMEMBERED: Final = 10_000
"""Characters of the longest prompt that is remembered for the next chat."""
_STYLES: Final = re.compile(r"\x1b\[[0-9;]*m")
_WORD: Final = re.compile(r"\S*$")


class Above:
    """A stream whose whole lines scroll above the prompt; a line without an end stands right over it."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._whole, self.open = "", ""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return sys.stdout.fileno()

    def flush(self) -> None:
        pass

    def write(self, text: str, /) -> None:
        whole, end, self.open = (self.open + text).rpartition("\n")
        self._whole += whole + end
        if len(self.open) > _OPEN_LENGTH:
            self._whole, self.open = f"{self._whole}{self.open}\n", ""
        self._changed()

    def take(self, *, everything: bool = False) -> str:
        """The whole lines that were not taken yet; in the end also the open one."""
        taken, self._whole = self._whole, ""
        if everything and self.open:
            taken, self.open = f"{taken}{self.open}\n", ""
        return taken


class Terminal:
    """A console with a prompt of its own. `status` says what stands over the prompt, `interrupted` hears Ctrl-C."""

    waits = False
    scripted = False

    def __init__(self, home: Path, root: str, status: Callable[[], str], interrupted: Callable[[], None]) -> None:
        self._above = Above(self._written)
        self.out: Stream = self._above
        self.about: Stream = self._above
        self._status, self._interrupted = status, interrupted
        self._styled = may_style(sys.stdout)
        self._echo = Out(self._above)
        self.left = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        output = create_output(sys.stdout)
        if isinstance(output, Vt100_Output):
            # Asking where the cursor is would hold up every line, and an answer that comes late looks like typing.
            output.enable_cpr = False
        self._session = PromptSession[str](
            self._message,
            output=output,
            multiline=True,
            prompt_continuation="  ",
            erase_when_done=True,
            history=_History(home),
            completer=_Completer(root),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            enable_suspend=True,
            key_bindings=self._keys(),
        )

    async def read(self) -> str | None:
        if self.left.is_set():
            return None
        try:
            text = await self._session.prompt_async(handle_sigint=False)
        except EOFError:
            return None
        self._echo.write("> " + text.replace("\n", "\n  ") + "\n")
        return text

    def leave(self) -> None:
        self.left.set()
        app = self._session.app
        if app.is_running and not app.is_done:
            app.exit(exception=EOFError())

    def refresh(self) -> None:
        self._session.app.invalidate()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._put(self._above.take(everything=True))

    # --- what is shown ---

    def _message(self) -> StyleAndTextTuples:
        faint = "dim" if self._styled else ""
        rows = "".join(f"{row}\n" for row in self._open_rows())
        style = faint if self._above.open.startswith("\x1b[2m") else ""
        status = self._cut(visible(self._status().replace("\n", " ")))
        return [(style, rows), (faint, f"{status}\n"), ("bold" if self._styled else "", "> ")]

    def _columns(self) -> int:
        return max(20, self._session.app.output.get_size().columns - 1)

    def _open_rows(self) -> list[str]:
        """The end of the line without an end, broken to the terminal's width."""
        columns, rows, width = self._columns(), [""], 0
        text = _STYLES.sub("", self._above.open).expandtabs()
        for character in text[-columns * _OPEN_ROWS :]:
            width += get_cwidth(character)
            if width > columns:
                rows, width = [*rows, ""], get_cwidth(character)
            rows[-1] += character
        return rows[-_OPEN_ROWS:] if text else []

    def _cut(self, text: str) -> str:
        columns = self._columns()
        return text if get_cwidth(text) <= columns else f"{text[: columns - 3]}..."

    def _written(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER, self._make_room)

    def _make_room(self) -> None:
        """Write the whole lines where the prompt stood; it is drawn again below them.

        Not by `run_in_terminal`, which would give the keys back to the terminal each time, so that it echoes them.
        """
        self._timer = None
        text, app = self._above.take(), self._session.app
        if text and app.is_running:
            app.renderer.erase()
        self._put(text)
        app.invalidate()

    def _put(self, text: str) -> None:
        with suppress(OSError):  # the terminal was closed
            sys.stdout.write(text.replace("\n", "\r\n"))
            sys.stdout.flush()

    # --- what is typed ---

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
                buffer.complete_state = None
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            self._interrupted()

        return keys

    def clear(self) -> bool:
        buffer = self._session.default_buffer
        typed = bool(buffer.text)
        buffer.reset()
        return typed


class _History(FileHistory):
    """What was typed in any chat, in a file that nobody else may read. That it cannot be kept is no reason to stop."""

    def __init__(self, home: Path) -> None:
        super().__init__(home / "chat-history")
        with suppress(OSError):
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.filename, os.O_CREAT | os.O_APPEND, 0o600)
            os.fchmod(descriptor, 0o600)
            os.close(descriptor)

    def store_string(self, string: str) -> None:
        if len(string) <= _REMEMBERED:
            with suppress(OSError):
                super().store_string(string)


class _Completer(Completer):
    """Commands after a slash as they are typed; names of files and folders of the workspace on Tab."""

    def __init__(self, root: str) -> None:
        self._root = root

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and not re.search(r"\s", before):
            for name, (_, does) in COMMANDS.items():
                if name.startswith(before[1:]):
                    yield Completion(f"/{name}", -len(before), display_meta=does)
        elif complete_event.completion_requested:
            yield from self._paths(before)

    def _paths(self, before: str) -> Iterator[Completion]:
        found = _WORD.search(before)
        folder, slash, start = (found[0] if found else "").rpartition("/")
        try:
            with WorkspaceRoot.open(self._root) as door:
                entries = door.list(door.locate(folder or ".")).entries
        except UllageError:
            return
        for entry in entries:
            name = entry.path.name
            if name.startswith(start) and name.isprintable() and " " not in name:
                ending = "/" if entry.kind is Kind.FOLDER else ""
                yield Completion(f"{folder}{slash}{name}{ending}", -len(folder + slash + start), display=name + ending)
