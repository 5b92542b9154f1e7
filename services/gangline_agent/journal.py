"""What is on disk about a task, so that no agent starts it twice and every agent finds it again.

One folder per task. The agent writes `task.json` before anything runs; the supervisor appends to `life` (see
supervise.py). Whoever makes `life` first decides: the supervisor by claiming the task, or a later agent by calling a
start off that never happened. `life`, which begins with a copy of the intent, is written through to disk before the
program starts and after it ended; everything else only has to outlive processes, which files do.
"""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from gangline_agent.plain import open_plain
from gangline_core.facts import ExitCause
from gangline_core.ids import JobId, TaskId
from gangline_wire.codec import CodecError, decode
from gangline_wire.contract import Sizing
from gangline_wire.subjects import token

INTENT = "task.json"
LIFE = "life"
TOLD = "told"
FILE_BYTES_MAX = 1 << 20
"""No file that we read as a whole is larger, unless a job made it so: it is read again and again."""
PID_MAX = 1 << 22
TICKS_MAX = 1 << 62
CODE_MAX = 1 << 16
SIGNAL_MAX = 64
WORDS_MAX = 2_000
"""Letters of what failed that are told on."""
NOTICE = "notice.json"
SIZE = "size.json"
HEARTBEAT = "heartbeat"
WORK = "work"


class Intent(Struct, frozen=True):
    """What the agent means to do with a task; no command and no environment, which may hold secrets."""

    task: TaskId
    job: JobId
    placed_ms: int
    stop_signal: int
    grace_s: int
    limit_s: float = 0
    """Seconds it may run; 0 is no limit."""
    stop_cause: ExitCause | None = None
    """Why it was asked to stop, once it was."""
    leave_at_s: float = 0
    """When a member that leaves is asked to stop at the latest, in seconds since boot; 0 when it does not leave."""
    is_safe: bool = False
    """A member that leaves said that it has saved what it must."""
    pause: bool = False
    """It was told to stand still."""
    pause_at_s: float = 0
    """When its processes are stopped where they are at the latest, in seconds since boot."""
    still_s: float = 0
    """Since when they stand still; 0 when they work."""
    paused_s: float = 0
    """How long they stood still before."""
    kill_at_s: float = 0
    """When it is killed if it has not stopped, in seconds since boot."""
    ends_at_s: float = 0
    """Its job's deadline in seconds since boot, which comes whether it works or stands still; 0 when it has none."""
    ports: tuple[int, ...] = ()
    """Ports on which something else listens where its gang should meet: it was not started for that."""


class Life(Struct, frozen=True):
    """What a supervisor wrote down."""

    pid: int = 0
    """The supervisor; 0 when none claimed the task."""
    start_ticks: int = 0
    boot: str = ""
    main: int = 0
    main_ticks: int = 0
    """The program; 0 when it was not started."""
    failed: str = ""
    bus_lost: bool = False
    """The supervisor stopped the program because no agent renewed the lease."""
    exit_code: int | None = None
    empty: bool = False
    called_off: bool = False

    @property
    def is_over(self) -> bool:
        """True when the program ended or never began."""
        return self.exit_code is not None or bool(self.failed)


def parse_life(data: bytes) -> Life:
    """The story in the file; a last line that was not written whole is not told yet, a garbled one never."""
    seen: dict[str, object] = {}
    for line in data[: data.rfind(b"\n") + 1].decode(errors="replace").splitlines():
        word, _, rest = line.partition(" ")
        try:
            seen |= _told_by(word, rest)
        except ValueError:
            continue
    return msgspec.convert(seen, Life)


def _told_by(word: str, rest: str) -> dict[str, object]:
    """What one line says; raises ValueError when it is garbled."""
    match word:
        case "claimed":
            pid, ticks, boot = rest.split(" ")
            return {"pid": _upto(pid, PID_MAX), "start_ticks": _upto(ticks, TICKS_MAX), "boot": boot}
        case "started":
            pid, ticks = rest.split(" ")
            return {"main": _upto(pid, PID_MAX), "main_ticks": _upto(ticks, TICKS_MAX)}
        case "failed":
            return {"failed": rest[:WORDS_MAX]}
        case "stopping":
            return {"bus_lost": True}
        case "exited":
            return {"exit_code": _upto(rest, CODE_MAX)}
        case "empty":
            return {"empty": True}
        case "called":
            return {"called_off": True}
        case _:
            return {}


def _upto(text: str, most: int) -> int:
    """A number from 0 on; what a job wrote there itself may be any other one."""
    if not 0 <= (number := int(text)) <= most:
        raise ValueError(text)
    return number


class Folder(Struct, frozen=True):
    """The files of one task. The job can write there, too: whatever it puts there ends nobody and is nobody else's."""

    path: Path

    @property
    def work(self) -> Path:
        """Where the program starts unless the job says otherwise."""
        return self.path / WORK

    @property
    def notice(self) -> Path:
        """Appears when the task is asked to stop."""
        return self.path / NOTICE

    @property
    def size(self) -> Path:
        """How big the job is, rewritten whenever that changes."""
        return self.path / SIZE

    @property
    def heartbeat(self) -> Path:
        """The program may touch this to show that it makes progress."""
        return self.path / HEARTBEAT

    def sizing(self) -> Sizing | None:
        """What the task was last told of its job's size."""
        try:
            return decode(_read(self.size), Sizing)
        except CodecError:
            return None

    def make(self, intent: Intent) -> None:
        """Write the intent, in a folder only this user may enter. Done before anything is started."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        self.work.mkdir(mode=0o700, exist_ok=True)
        self.write(intent)

    def write(self, intent: Intent) -> None:
        """Replace the intent."""
        self.put(INTENT, msgspec.json.encode(intent))

    def put(self, name: str, data: bytes) -> None:
        """Replace one of its files, and none of another folder.

        Raises:
            OSError: it cannot be written, or a job has put a link in the place of its folder.
        """
        if self.path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self.path))
        write_whole(self.path / name, data)

    def intent(self) -> Intent | None:
        """The intent, or None when nothing whole was written; after a power cut only the copy in `life` is sure."""
        for text in (_read(self.path / INTENT), _copied_intent(_read(self.path / LIFE))):
            try:
                found = decode(text, Intent)
            except CodecError:
                continue
            if self._is_mine(found):
                return found
        return None

    def _is_mine(self, intent: Intent) -> bool:
        """Nobody is told of another task than the one whose folder it is, or is sent what is no signal."""
        is_named = token(intent.task) == self.path.name and intent.task.startswith(f"{intent.job}-")
        return is_named and 0 <= intent.stop_signal <= SIGNAL_MAX and 0 <= intent.placed_ms <= TICKS_MAX

    def life(self) -> Life:
        """What happened so far."""
        return parse_life(_read(self.path / LIFE))

    def call_off(self) -> bool:
        """Make sure that no supervisor claims the task from now on; False when one did."""
        return self._claim(b"called off\n") or self.life().called_off

    def fail(self, error: str) -> bool:
        """Write down, in the supervisor's place, that the task could not be started; False when one claimed it."""
        return self._claim(f"failed {' '.join(error.split())}\nempty\n".encode())

    def _claim(self, life: bytes) -> bool:
        mine = self.path / f"{LIFE}.agent"
        self.put(mine.name, life)
        try:
            os.link(mine, self.path / LIFE)
        except FileExistsError:
            return False
        finally:
            mine.unlink()
        return True

    def told(self) -> int:
        """Bytes of the output that the log of outputs has."""
        try:
            return int((self.path / TOLD).read_text())
        except (OSError, ValueError):
            return 0

    def set_told(self, position: int) -> None:
        """Remember how far the output was told; losing this only repeats a message, which the bus notices."""
        with suppress(OSError):
            self.put(TOLD, str(position).encode())


class Journal:
    """All tasks of one agent on this machine: live ones in `tasks`, ended ones in `ended` for a while."""

    def __init__(self, root: Path) -> None:
        """Make the folders, closed to other users."""
        # Supervisors run where their job does: what is said from here would mean something else there.
        root = root.absolute()
        self.root = root
        self.live = root / "tasks"
        self.ended = root / "ended"
        # Of folders above that are missing, too, else they would be open.
        for folder in (root.parent, root, self.live, self.ended):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def folder(self, task: TaskId) -> Folder:
        """Where a live task's files are (or will be)."""
        return Folder(self.live / token(task))

    def found(self) -> list[Folder]:
        """Folders of live tasks, by name."""
        return [Folder(path) for path in sorted(self.live.iterdir()) if path.is_dir() and not path.is_symlink()]

    def drop(self, folder: Folder) -> None:
        """Throw away a task that never ran."""
        shutil.rmtree(folder.path, ignore_errors=True)

    def archive(self, folder: Folder, placed_ms: int) -> None:
        """Put an ended task's files aside; its output stays readable until `clean`."""
        if folder.path.is_symlink():
            folder.path.unlink()
        elif folder.path.exists():
            place = self.ended / f"{folder.path.name}.{placed_ms}"
            shutil.rmtree(place, ignore_errors=True)
            # One that nobody may write to cannot be moved.
            folder.path.chmod(0o700)
            folder.path.rename(place)

    def clean(self, *, older_than_ms: int, most: int) -> int:
        """Delete ended tasks' files that are too old or too many; gives how many."""
        entries = sorted((path.lstat().st_mtime * 1000, path) for path in self.ended.iterdir())
        surplus = len(entries) - most
        gone = [path for k, (at_ms, path) in enumerate(entries) if k < surplus or at_ms < older_than_ms]
        for path in gone:
            shutil.rmtree(path, ignore_errors=True)
        return len(gone)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file so that readers see the old or the new one, whole; 0600."""
    temporary = path.with_name(f".{path.name}.new")
    # The task can write into its folder, too: what it put there under this name is not written through.
    _take_away(temporary)
    fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
    if path.is_dir() and not path.is_symlink():
        _take_away(path)
    temporary.replace(path)


def _take_away(path: Path) -> None:
    """Whatever has this name; of a link the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    file = open_plain(path)
    if file is None:
        return b""
    with file:
        return file.read(FILE_BYTES_MAX)


def _copied_intent(life: bytes) -> bytes:
    """The copy of the intent with which the file of a life begins, if it does."""
    word = b"intent "
    return life[len(word) :].partition(b"\n")[0] if life.startswith(word) else b""
