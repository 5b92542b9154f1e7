"""All deaths of one run for little more than their ends: it is played once, and at each wait a copy of it goes on.

In the copy, which is a process of its own (`fork`), whoever has come to the wait dies there, and everything else is as
it was: the copy is the run that the same plan with this one death would be. It has files of its own, since the run's
folder is the working directory of whoever plays it. A copy says what became of it and ends; the run has no death.
"""

import asyncio
import gc
import os
import select
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dollhouse.plan import Event, Plan
from dollhouse.play import Outcome, play_in, room

HERE, RUN = Path(), "run"
OPEN_FILES = Path("/proc/self/fd")
READ_BYTES = 1 << 16
MOVED = b"."


class Death(Struct, frozen=True):
    """Who dies at which of its waits in which plan."""

    plan: Plan
    who: str
    wait: int

    @property
    def name(self) -> str:
        """By which it can be played alone."""
        return f"{self.who}:{self.wait}:{self.plan.copies}"

    @property
    def alone(self) -> Plan:
        """The plan of a run with this death."""
        death = Event(at_s=0, what="dies_at", who=self.who, number=self.wait)
        return replace(self.plan, events=(death, *self.plan.events))


Wanted = Callable[[Death], bool]
Told = Callable[[Death, Outcome], None]


def play_deaths(plan: Plan, *, wanted: Wanted, told: Told, workers: int = 1) -> Outcome:
    """Play the plan with each death that is wanted; `told` hears of each, in the order in which they end.

    Gives what became of the plan without any death. Not for a process with threads, which a copy would lack.
    """
    deaths = _Deaths(plan, wanted=wanted, told=told, workers=workers)
    came_from = os.open(HERE, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with room() as folder:
            os.mkdir(folder / RUN)
            os.chdir(folder / RUN)
            try:
                return deaths.play(folder)
            finally:
                os.fchdir(came_from)
    finally:
        os.close(came_from)


class _Copy(Struct, frozen=True):
    """A copy that goes on by itself."""

    death: Death
    process: int
    pipe: int
    said: bytearray


class _Deaths:
    """The run, and those of its copies that have not ended."""

    def __init__(self, plan: Plan, *, wanted: Wanted, told: Told, workers: int) -> None:
        """Not begun."""
        self._plan = plan
        self._wanted = wanted
        self._told = told
        self._workers = workers
        self._copies: dict[int, _Copy] = {}
        self._pipe: int | None = None
        """Where a copy says what became of it; None in the run itself."""
        self._root = HERE

    def play(self, root: Path) -> Outcome:
        """The run to its end, and all copies to theirs; copies do not come back from here."""
        self._root = root
        anybody = Event(at_s=0, what="dies_at")
        gc.collect()
        gc.freeze()
        try:
            outcome = play_in(HERE, replace(self._plan, events=(anybody, *self._plan.events)), self._dies)
            if self._pipe is not None:
                self._say(outcome)
            self._wait_for(0)
        except BaseException:
            if self._pipe is not None:
                self._say(Outcome(faults=(traceback.format_exc(),)))
            raise
        finally:
            gc.unfreeze()
        return outcome

    def _dies(self, who: str, wait: int) -> bool:
        """True in the copy in which this process dies here."""
        death = Death(plan=self._plan, who=who, wait=wait)
        if self._pipe is not None or not self._wanted(death):
            return False
        self._wait_for(self._workers - 1)
        hears, says = os.pipe()
        loop = asyncio.get_running_loop()
        process = os.fork()
        if process == 0:
            os.close(hears)
            self._pipe = says
            # To asyncio, a copy of a process that runs a loop runs none.
            asyncio._set_running_loop(loop)
            gc.disable()
            _move(self._root / RUN, self._root / str(os.getpid()))
            os.write(says, MOVED)
            return True
        os.close(says)
        # Before the copy has files of its own, nothing may happen to the run's.
        os.read(hears, len(MOVED))
        self._copies[hears] = _Copy(death, process, hears, bytearray())
        return False

    def _wait_for(self, most: int) -> None:
        """Until no more copies than so many have not ended."""
        while len(self._copies) > most:
            ready, _, _ = select.select(list(self._copies), [], [])
            for pipe in ready:
                data = os.read(pipe, READ_BYTES)
                self._copies[pipe].said.extend(data)
                if not data:
                    self._end(self._copies.pop(pipe))

    def _end(self, copy: _Copy) -> None:
        os.close(copy.pipe)
        _, status = os.waitpid(copy.process, 0)
        try:
            outcome = msgspec.json.decode(bytes(copy.said), type=Outcome)
        except msgspec.DecodeError:
            outcome = Outcome(faults=(f"the copy ended with status {status} and said {bytes(copy.said)!r}",))
        self._told(copy.death, outcome)

    def _say(self, outcome: Outcome) -> NoReturn:
        assert self._pipe is not None
        with os.fdopen(self._pipe, "wb") as pipe:
            pipe.write(msgspec.json.encode(outcome))
        shutil.rmtree(Path.cwd(), ignore_errors=True)
        os._exit(0)


def _move(old: Path, new: Path) -> None:
    """From now on this process has its files in another folder, those that are open included."""
    shutil.copytree(HERE, new)
    os.chdir(new)
    for entry in list(OPEN_FILES.iterdir()):
        number = int(entry.name)
        try:
            path = Path(os.readlink(entry))
        except FileNotFoundError:
            continue  # It was the folder's own.
        if path.is_relative_to(old):
            _reopen(number, new / path.relative_to(old))


def _reopen(number: int, path: Path) -> None:
    """An open file's number means the same place in another file."""
    mode = int(Path(f"/proc/self/fdinfo/{number}").read_text().split()[3], 8)
    own = os.open(path, mode & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
    os.lseek(own, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
    os.dup2(own, number, inheritable=False)
    os.close(own)
