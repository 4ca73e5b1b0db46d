"""The process that keeps one command, so that nothing of it is left: run as a script, with the standard library only.

Invariant: when this process has ended by itself, no process that the command started runs any more; and it ends when
it is told to, when the server that started it is gone however it went, or when the command and all it started are done.

How: the command leads a session and a process group of its own. On Linux this process takes in whatever the command's
processes leave behind (`PR_SET_CHILD_SUBREAPER`), so one that made a session of its own is found and ended too;
elsewhere only the group is. The server holds the other end of standard input: a line on it, or its end, means that the
command must end: SIGTERM, and SIGKILL to what is left after a grace. Should this process be killed, the kernel kills
the command (`PR_SET_PDEATHSIG`, Linux), and the server its group.

On standard input comes the order: four bytes of length, then a tuple as `marshal` writes it. On standard output go
lines whose fields are parted by U+001F: `started`, pid; or `failed`, why; then `ended`, the wait status, and the id
and command line of each process that the command left running. Standard output ends when nothing is left.

It starts once for each command, so it imports what is in the interpreter already and nothing that takes time: of
`signal` the part in C, no `json`, no `typing`.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import marshal
import os
import select
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LINUX = sys.platform.startswith("linux")
SEPARATOR = "\x1f"
SETTLE_S = 0.1
"""How long what a command leaves behind may take to end before it counts as left running."""
KILL_S = 1.0
"""How long SIGKILL is sent again to what still comes up: a process may fork faster than it is found."""
LOOK_S = 0.05
"""How often one looks for what is left where nobody tells."""


class Order:
    """What to run: the first of some programs that is there, looked for along `PATH` of the environment, in the folder
    `root`, which must be the one of that `identity` (device, inode), its output going to the descriptors `outputs`;
    `grace` in seconds; `confined` as `confine.py` takes it, or not at all."""

    def __init__(self, frame: bytes) -> None:
        self.programs: list[list[str]]
        self.environment: dict[str, str]
        self.root: str
        self.identity: tuple[int, int]
        self.outputs: tuple[int, int]
        self.grace: float
        self.confined: tuple[list[str], bool] | None
        (self.programs, self.environment, self.root, self.identity, self.outputs, self.grace, self.confined) = (
            marshal.loads(frame)
        )


class Keeper:
    """One command, started by `start`."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._child = 0
        self._status: int | None = None
        self._told = self._none_left = False
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)

    def start(self) -> bool:
        """Start the command, and tell how that went."""
        adopt_orphans()
        told, telling = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            become(self._order, telling)
        os.close(telling)
        for end in self._order.outputs:
            os.close(end)
        problem = b""
        while piece := os.read(told, 1 << 16):
            problem += piece
        if problem:
            tell("failed", problem.decode("utf-8", "replace"))
            return False
        tell("started", self._child)
        return True

    def keep(self) -> None:
        """Wait until nothing is left, or until the server says stop."""
        while not self._is_over():
            if self._wait(LOOK_S if self._status is not None and not LINUX else None):
                self._stop()
                return

    def _is_over(self) -> bool:
        """Collect who has ended; tell when the command itself has."""
        self._reap()
        if self._status is not None and not self._told:
            until = time.monotonic() + SETTLE_S
            while not self._none_left and (left := until - time.monotonic()) > 0 and not self._wait(left):
                self._reap()
            self._tell_end()
        return self._none_left

    def _tell_end(self) -> None:
        self._told = True
        left = [] if self._none_left else left_of(self._child)
        tell("ended", "" if self._status is None else self._status, *(field for each in left for field in each))

    def _reap(self) -> None:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._child:
                    self._status = ended[1]
        except ChildProcessError:
            self._none_left = LINUX or not send(-self._child, 0)

    def _wait(self, seconds: float | None) -> bool:
        """Until something happens; whether the server said stop or is gone."""
        ready, _, _ = select.select([0, self._woken], [], [], seconds)
        if self._woken in ready:
            os.read(self._woken, 1 << 10)
        return 0 in ready

    def _stop(self) -> None:
        """SIGTERM, a grace, SIGKILL until nothing comes up any more."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        self._reap_until(time.monotonic() + self._order.grace)
        until = time.monotonic() + KILL_S
        while not self._none_left and time.monotonic() < until:
            self._signal(signal.SIGKILL)
            self._reap_until(time.monotonic() + LOOK_S)
        if not self._told:
            self._tell_end()

    def _reap_until(self, until: float) -> None:
        self._reap()
        while not self._none_left and (left := until - time.monotonic()) > 0:
            if select.select([self._woken], [], [], min(left, LOOK_S))[0]:
                os.read(self._woken, 1 << 10)
            self._reap()

    def _signal(self, number: int) -> None:
        """To the group, and to what left it."""
        send(-self._child, number)
        for pid, _ in left_of(self._child):
            send(pid, number)


def become(order: Order, telling: int) -> None:
    """The forked child: become the command. Never returns; what goes wrong goes into the pipe `telling`."""
    try:
        os.setsid()
        die_with_parent()
        root = os.open(order.root, os.O_RDONLY | os.O_DIRECTORY)
        os.fchdir(root)
        here = os.fstat(root)
        if (here.st_dev, here.st_ino) != order.identity:
            raise OSError("the workspace folder was replaced by another; close and open the workspace again")
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((null, *order.outputs)):
            os.dup2(source, target)
        os.closerange(3, telling)
        os.closerange(telling + 1, 1 << 10)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if order.confined is not None:
            sys.path.append(__file__.rpartition("/")[0])
            import confine  # type: ignore[import-not-found]  # its file lies beside this one

            confine.confine(*order.confined)
        for argv in order.programs:
            try:
                os.execvpe(argv[0], argv, order.environment)
            except FileNotFoundError:
                continue
        raise OSError(f"none of {', '.join(argv[0] for argv in order.programs)} is installed")
    except BaseException as error:
        os.write(telling, str(error).encode("utf-8", "replace")[:1000] or b"it did not start")
    finally:
        os._exit(127)


# --- what only some systems have ---


def prctl(option: int, value: int) -> None:
    if LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def send(pid: int, number: int) -> bool:
    """Whether there was somebody to get the signal."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def adopt_orphans() -> None:
    """Become the parent of every process of ours whose parent ends."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """End when the keeper does, which may have ended already."""
    keeper = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(127)


def left_of(group: int) -> list[tuple[int, str]]:
    """Ids and command lines of living processes: what descends from this one, and who is in the command's group."""
    found = list(_listed())
    below = {os.getpid()}
    for _ in found:
        more = {pid for pid, parent, _, _ in found if parent in below} - below
        if not more:
            break
        below |= more
    below.discard(os.getpid())
    return [(pid, line) for pid, _, its, line in found if pid in below or its == group]


def _listed() -> list[tuple[int, int, int, str]]:
    """(id, parent's id, group, command line) of every process that is no zombie."""
    if not LINUX:
        return _from_ps()
    rows = []
    for name in [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]:
        try:
            fields = _content(f"/proc/{name}/stat").rpartition(b")")[2].split()
            line = _content(f"/proc/{name}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue  # it has ended meanwhile
        if fields[0] not in (b"Z", b"X"):
            rows.append((int(name), int(fields[1]), int(fields[2]), line))
    return rows


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _from_ps() -> list[tuple[int, int, int, str]]:
    import subprocess

    order = ["/bin/ps", "-axo", "pid=,ppid=,pgid=,stat=,command="]
    rows = [line.split(None, 4) for line in subprocess.run(order, capture_output=True, text=True).stdout.splitlines()]
    return [
        (int(row[0]), int(row[1]), int(row[2]), row[4][:200])
        for row in rows
        if len(row) == 5 and not row[3].startswith("Z") and row[4] != " ".join(order)
    ]


# --- talking to the server ---


def tell(*fields: object) -> None:
    """One line; a server that is gone needs none."""
    line = SEPARATOR.join("".join(c if c.isprintable() else " " for c in str(field)[:200]) for field in fields)
    try:
        os.write(1, line.encode() + b"\n")
    except OSError:
        pass


def read_exactly(size: int) -> bytes:
    """So many bytes of standard input; fewer when the server is gone."""
    read = b""
    while len(read) < size and (piece := os.read(0, size - len(read))):
        read += piece
    return read


def main() -> None:
    """Keep the command that is ordered."""
    size = int.from_bytes(read_exactly(4), "big")
    frame = read_exactly(size)
    if len(frame) == size > 0:
        keeper = Keeper(Order(frame))
        if keeper.start():
            keeper.keep()


if __name__ == "__main__":
    main()
    os._exit(0)  # nothing is to be tidied up
