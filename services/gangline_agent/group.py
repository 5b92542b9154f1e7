"""All processes of one task, and what is told to them together: to end, to stand still, to work again."""

import contextlib
import logging
import os
import signal
from collections.abc import Iterable

from gangline_agent import containers, proc
from gangline_agent.cgroups import Cgroups
from gangline_agent.journal import NOTICE
from gangline_agent.lives import Live
from gangline_wire.codec import encode

log = logging.getLogger(__name__)

STILL_LOOKS_MAX = 8
"""Times that a task's processes are looked for until all of them stand still."""
OBEYS_LOOKS_MAX = 200
"""Times that processes which were told to stand still are looked at before all of the task's are looked for again."""
BLOCKS_S = 2.0
"""Who blocks a signal for so long takes it when it likes. For a moment everybody does who starts a program: a shell
blocks all signals until the program is there, and so does the program; either would end of one that came meanwhile."""
TASK_MARK = "GANGLINE_TASK_ID="
STANDING = "Tt"
"""Letters of processes that were stopped where they are."""


class Group:
    """Finds a task's processes on this boot of the machine."""

    def __init__(self, cgroups: Cgroups, boot: str) -> None:
        """`boot` names the boot on which supervisors are looked for."""
        self._cgroups = cgroups
        self._boot = boot
        self._has_containers = True
        """Any container ran on this machine when it was looked at last; nobody has looked yet."""

    def pids(self, live: Live) -> list[int]:
        """Every process of the task but its supervisor."""
        if not live.supervisor_lives:
            return [pid for pid in self.left(live) if pid != live.life.pid]
        everything = self._everything()
        below = proc.members(everything, live.life.pid)
        inside = containers.of_task(everything, str(live.folder.notice)) if self._has_containers else []
        return sorted({*below, *inside, *self._cgroups.pids(live.intent.task)} - {live.life.pid})

    def by_task(self, lives: Iterable[Live]) -> dict[str, list[int]]:
        """Processes of all of these tasks, found in one look at the machine."""
        everything = self._everything()
        inside: dict[str, list[int]] = {}
        for mark, pids in containers.of_tasks(everything) if self._has_containers else ():
            inside.setdefault(mark, []).extend(pids)
        found: dict[str, list[int]] = {}
        for live in lives:
            if live.supervisor_lives:
                own = {*proc.members(everything, live.life.pid), *inside.get(str(live.folder.notice), ())}
                found[live.intent.task] = sorted(own | set(self._cgroups.pids(live.intent.task)))
        return found

    def left(self, live: Live) -> list[int]:
        """Processes of a task whose supervisor is gone, or saw that nothing below it is left: containers may be."""
        if live.life.boot != self._boot:
            return []
        found, notice = set(self._cgroups.pids(live.intent.task)), str(live.folder.notice)
        if live.life.empty and not self._has_containers:
            return sorted(found)
        everything = self._everything()
        if not live.life.empty:
            found |= {*proc.members(everything, live.life.pid), *proc.marked(everything, containers.MARK + notice)}
        # Who is about to die has lost its environment, and may hold its GPUs still.
        found |= {pid for pid, one in everything.items() if live.killed.get(pid) == one.start_ticks}
        return sorted(found | set(containers.of_task(everything, notice)))

    def _everything(self) -> dict[int, proc.Process]:
        everything = proc.everything()
        self._has_containers = containers.are_here(everything)
        return everything

    def end(self, live: Live, number: int) -> None:
        """Ask all of them to end, or kill them; one that stands still hears it, too."""
        if number != signal.SIGKILL:
            notice = {"cause": live.intent.stop_cause or "left over", "kill_at_s": live.intent.kill_at_s}
            with contextlib.suppress(OSError):
                live.folder.put(NOTICE, encode(notice))
        pids = self.pids(live)
        if number == signal.SIGKILL:
            live.killed |= {pid: found.start_ticks for pid in pids if (found := proc.read(pid)) is not None}
        log.info("signal %d to %d processes of task %s", number, len(pids), live.intent.task)
        for pid in pids:
            if number != signal.SIGKILL:
                proc.signal(pid, signal.SIGCONT)
            proc.signal(pid, number)

    def nudge(self, live: Live, number: int, now_s: float) -> bool:
        """Signal the program, or what it started if it would not outlive that; False when nobody there listens yet.

        A program that is still loading, or a shell around one, has no handler: the signal would end it.
        """
        listening = [pid for pid in (live.life.main,) if _listens(live, pid, number, now_s)]
        if not listening and live.supervisor_lives:
            below = proc.members(proc.everything(), live.life.pid)
            listening = [pid for pid in below if _listens(live, pid, number, now_s)]
        for pid in listening:
            proc.signal(pid, number)
        if listening:
            live.blocking.clear()
        return bool(listening)

    def tell(self, live: Live, number: int) -> None:
        """Send a signal to all of them."""
        for pid in self.pids(live):
            proc.signal(pid, number)

    def stand_still(self, live: Live) -> bool:
        """Stop all of them where they are: again until none moves, since some may start others meanwhile.

        False when one moves even then: it is in the midst of something that the kernel does not interrupt.
        """
        for _ in range(STILL_LOOKS_MAX):
            moving = _moving(self.pids(live))
            if not moving:
                return True
            for pid in moving:
                proc.signal(pid, signal.SIGSTOP)
            # On a busy machine a process takes a while to obey. Looking at these few costs less than at all there are.
            moving = _wait(moving)
            if moving:
                _let_begin(self.pids(live), moving)
                _wait(moving)
        log.warning("task %s does not stand still yet", live.intent.task)
        return False


def _listens(live: Live, pid: int, number: int, now_s: float) -> bool:
    """True for a program of a task that waits for the signal; what is about to become one still looks like us."""
    ears = proc.ears(pid, number)
    if not (ears.catches or ears.blocks) or not proc.mark_of(pid, TASK_MARK):
        live.blocking.pop(pid, None)
        return False
    return ears.catches or now_s - live.blocking.setdefault(pid, now_s) >= BLOCKS_S


def _wait(moving: list[int]) -> list[int]:
    """Those that still move after a while."""
    for _ in range(OBEYS_LOOKS_MAX):
        moving = _moving(moving)
        if not moving:
            break
        os.sched_yield()
    return moving


def _let_begin(pids: Iterable[int], moving: list[int]) -> None:
    """Wake what was stopped before it was a program: until it is one, whoever starts it waits in the kernel (vfork)."""
    for process in filter(None, map(proc.read, pids)):
        starter = proc.read(process.parent) if process.parent in moving and process.state in STANDING else None
        if starter is not None and starter.state == proc.UNINTERRUPTIBLE:
            proc.signal(process.pid, signal.SIGCONT)


def _moving(pids: Iterable[int]) -> list[int]:
    """Those of these processes that are alive and do not stand still."""
    found = (proc.read(pid) for pid in pids)
    return [process.pid for process in found if process is not None and process.state not in STANDING]
