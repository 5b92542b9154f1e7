"""Stands beside one task's program: starts it, keeps what it writes, and writes down how it ended.

A supervisor lives in its own session, so that it outlives the agent. It decides nothing but one thing: when the agent's
lease file has not been renewed in time, it stops the program as the agent would have.

It is forked (see forking.py) with an order of NUL-separated fields (see FIELDS), which lives in memory only.
The supervisor tells what happens by appending lines to the file `life` in the task's folder, and by a word into the
agent's pipe:

    intent JSON                the agent's intent, so that this one file tells all
    claimed PID START BOOT     nobody else may start this task; written before the program is started
    started PID START          the program runs (or ran)
    failed TEXT                the program could not be started
    stopping CAUSE             the supervisor itself began to stop it
    exited CODE                the program ended; 128 + N for signal N
    empty                      nothing of it is left, and all it wrote is in the output files
"""

import ctypes
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FIELDS = (
    "folder",
    "intent",
    "pipe",
    "cgroup",
    "cgroup_home",
    "cwd",
    "note",
    "shown",
    "head_bytes",
    "tail_bytes",
    "lease_file",
    "lease_s",
    "stop_signal",
    "grace_s",
    "argc",
)
"""Fields of the order, in this sequence; then `argc` arguments, then the environment as NAME=VALUE."""

READ_BYTES = 1 << 16
POLL_MS = 1000
LEFTOVER_POLL_MS = 20
ORPHAN_GRACE_S_MAX = 8.0
"""Without an agent, a task must be gone before its node is declared lost and it is started elsewhere."""
SUBREAPER = 36
SIGKILL, SIGCONT, SIGPIPE = 9, 18, 13
ENOENT = 2
UNBLOCKED_DEFAULTS = (1, 2, 3, SIGPIPE, 10, 12, 15, 17, SIGCONT, 25)
"""Signals the program finds in their default state, whatever the agent or Python did with them."""


def supervise(order: bytes) -> None:
    """Stand beside the task that the order describes."""
    fields = order.split(b"\0")
    given = dict(zip(FIELDS, fields, strict=False))
    argc = int(given["argc"])
    argv = fields[len(FIELDS) : len(FIELDS) + argc]
    environment = dict(entry.split(b"=", 1) for entry in fields[len(FIELDS) + argc :] if entry)
    os.chdir(given["folder"])
    life = Life(given["pipe"])
    if life.claim(given["intent"]):
        Supervisor(given, life).run(argv, environment)


class Life:
    """The file `life`: one line per thing that happened, and a word to the agent after each."""

    def __init__(self, pipe: bytes) -> None:
        """Nothing is written before `claim`."""
        self.pipe = pipe
        self.fd = -1

    def claim(self, intent: bytes) -> bool:
        """Make this the one start of the task; False when the task was claimed or called off before."""
        pid = os.getpid()
        name = b"life.%d" % pid
        self.fd = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_TRUNC, 0o600)
        claim = b"claimed %d %s %s" % (pid, start_ticks(pid), boot_id())
        os.write(self.fd, b"intent %s\n%s\n" % (intent, claim))
        try:
            os.link(name, b"life")
        except FileExistsError:
            return False
        finally:
            os.unlink(name)
        # Synced after it has its name, so that the name is on disk too: one write-through per start.
        os.fsync(self.fd)
        return True

    def write(self, line: bytes, *, durably: bool = False) -> None:
        """Add a line, however long the disk is full, then wake the agent."""
        data = line.replace(b"\n", b" ") + b"\n"
        while not self._add(data, durably=durably):
            select.select([], [], [], 1)
            data = b"\n" + data.lstrip(b"\n")
        try:
            pipe = os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return  # No agent listens; it reads the file when it is back.
        try:
            os.write(pipe, os.path.basename(os.getcwdb()) + b"\n")
        except OSError:
            pass  # The pipe is full: the agent looks at every task now and then anyway.
        finally:
            os.close(pipe)

    def _add(self, data: bytes, *, durably: bool) -> bool:
        try:
            is_whole = os.write(self.fd, data) == len(data)
            if durably:
                os.fsync(self.fd)
        except OSError:
            return False
        return is_whole


class Output:
    """What the task writes, in files named by their first byte: the first one is kept, and the last two."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        """Begin with an empty first file."""
        self.head_bytes = head_bytes
        self.tail_bytes = tail_bytes
        self.total = 0
        self.names: list[bytes] = []
        self.fd = -1
        self.room = 0
        self.open_next()

    def open_next(self) -> None:
        """Go on in a new file, and drop the oldest but the first."""
        self.close()
        name = b"output.%020d" % self.total
        self.room = self.tail_bytes if self.names else self.head_bytes
        self.fd = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.names.append(name)
        if len(self.names) > 3:
            os.unlink(self.names.pop(1))

    def close(self) -> None:
        """Write no more to this file."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def write(self, data: bytes) -> None:
        """Keep these bytes; what a full disk does not take is left out, and the names of the files show it."""
        while data:
            size = len(data)
            try:
                if self.room <= 0:
                    self.open_next()
                size = os.write(self.fd, data[: self.room])
                self.room -= size
            except OSError:
                self.room = 0
            self.total += size
            data = data[size:]


class Supervisor:
    """The program and what is left of it."""

    def __init__(self, given: dict[str, bytes], life: Life) -> None:
        """Take the order's fields."""
        self.given = given
        self.life = life
        self.lease_s = float(given["lease_s"])
        self.grace_s = float(given["grace_s"])
        self.stop_signal = int(given["stop_signal"])
        self.output = Output(int(given["head_bytes"]), int(given["tail_bytes"]))
        self.reader = -1
        self.main = 0
        self.is_over = False
        self.kill_at_s = 0.0
        self.looked_s = 0.0

    def run(self, argv: list[bytes], environment: dict[bytes, bytes]) -> None:
        """Start the program and stay until nothing of it is left."""
        if self.given["note"]:
            self.output.write(self.given["note"])
        become_subreaper()
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        try:
            self.main = self.start(argv, environment, writer)
        except OSError as error:
            fault = b"%s: %s" % (self.given["shown"] or argv[0], why_not(error, argv[0]))
            self.output.write(b"[gangline: could not start %s]\n" % fault)
            self.output.close()
            self.life.write(b"failed " + fault)
            self.life.write(b"empty")
            return
        finally:
            os.close(writer)
        self.life.write(b"started %d %s" % (self.main, start_ticks(self.main)))
        self.stay()
        self.drain()
        self.output.close()
        self.life.write(b"empty")

    def start(self, argv: list[bytes], environment: dict[bytes, bytes], writer: int) -> int:
        """The program in its own process group (and cgroup), with nothing of ours but its output pipe."""
        os.chdir(self.given["cwd"])
        move_to(self.given["cgroup"])
        try:
            return os.posix_spawn(
                argv[0],
                argv,
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, writer, 1),
                    (os.POSIX_SPAWN_DUP2, writer, 2),
                ],
                setpgroup=0,
                setsigmask=(),
                setsigdef=UNBLOCKED_DEFAULTS,
            )
        finally:
            # Back where the supervisor belongs, so that ending the task's cgroup does not end the supervisor.
            move_to(self.given["cgroup_home"])
            os.chdir(self.given["folder"])

    def stay(self) -> None:
        """Keep output and reap children until there are none."""
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        watch = watch_end(self.main)
        if watch >= 0:
            poll.register(watch, select.POLLIN)
        while True:
            for fd, _ in poll.poll(LEFTOVER_POLL_MS if self.is_over or watch < 0 else POLL_MS):
                if fd == watch:
                    poll.unregister(watch)
                elif not self.drain():
                    poll.unregister(self.reader)
            if not self.reap():
                return
            self.mind_lease()

    def drain(self) -> bool:
        """Keep what is in the pipe; False when nobody can write to it any more."""
        for _ in range(64):
            try:
                data = os.read(self.reader, READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.output.write(data)
        return True

    def reap(self) -> bool:
        """Take in ended children, adopted ones too; False when there are no children left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.main:
                self.is_over = True
                self.drain()
                code = os.waitstatus_to_exitcode(status)
                self.life.write(b"exited %d" % (code if code >= 0 else 128 - code), durably=True)

    def mind_lease(self) -> None:
        """Stop the program when the agent has been away for too long."""
        now_s = since_boot_s()
        if self.lease_s <= 0 or now_s < self.looked_s + 1:
            return
        self.looked_s = now_s
        if self.kill_at_s:
            if now_s >= self.kill_at_s:
                self.signal(SIGKILL)
        elif now_s - self.renewed_s() > self.lease_s:
            self.kill_at_s = now_s + min(self.grace_s, ORPHAN_GRACE_S_MAX)
            self.life.write(b"stopping bus_lost")
            self.signal(SIGCONT)
            self.signal(self.stop_signal)

    def renewed_s(self) -> float:
        """When the agent last renewed its lease, in seconds since boot."""
        try:
            with open(self.given["lease_file"], "rb") as lease:
                return float(lease.read() or 0)
        except (OSError, ValueError):
            return 0.0

    def signal(self, number: int) -> None:
        """Signal the program's process group, and orphans of it that became our children."""
        send(os.killpg, self.main, number)
        for pid in children(os.getpid()):
            send(os.kill, pid, number)


def why_not(error: OSError, program: bytes) -> bytes:
    """Why a program did not start; of one whose interpreter is missing the system says that it is itself."""
    if error.errno == ENOENT and os.path.exists(program):
        return b"the interpreter that it names was not found"
    return os.strerror(error.errno or 0).encode()


def send(how: "Callable[[int, int], None]", target: int, number: int) -> None:
    """Send a signal to who may be gone already."""
    try:
        how(target, number)
    except OSError:
        return


def become_subreaper() -> None:
    """Orphans among the program's descendants become our children, so that none is lost sight of."""
    try:
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        return  # Without it, only the process group and session are known.


def move_to(cgroup: bytes) -> None:
    """Move this process into a cgroup, if there is one; the program is then born there."""
    if cgroup:
        try:
            with open(cgroup + b"/cgroup.procs", "wb") as procs:
                procs.write(b"0")
        except OSError:
            return  # The cgroup only helps to find strays; the task runs without it.


def watch_end(pid: int) -> int:
    """A file descriptor that becomes readable when the process ends; -1 where the kernel has none."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def start_ticks(pid: int) -> bytes:
    """Start time of a process in clock ticks since boot: with the pid, its name for ever on this boot."""
    try:
        with open(b"/proc/%d/stat" % pid, "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[19]
    except OSError:
        return b"0"


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    try:
        with open(b"/proc/%d/task/%d/children" % (pid, pid), "rb") as listed:
            return [int(child) for child in listed.read().split()]
    except OSError:
        return []


def boot_id() -> bytes:
    """Name of this boot of the machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as boot:
            return boot.read().strip()
    except OSError:
        return b"unknown"


def since_boot_s() -> float:
    """Seconds since boot, as the agent's clock counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
