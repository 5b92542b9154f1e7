"""Processes of this machine as /proc shows them: who is alive, and who belongs to a task."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

PROC = Path("/proc")
STAT_BYTES_MAX = 4096
UNINTERRUPTIBLE = "D"
"""Letter of a process that waits for the kernel."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process(Struct, frozen=True):
    """One process at one moment."""

    pid: int
    state: str
    """One letter; "Z" is dead and only waits to be reaped."""
    parent: int
    group: int
    session: int
    start_ticks: int
    """Start time in clock ticks since boot: with the pid, its name for ever on this boot."""
    name: str = ""
    """What the kernel calls the program: 15 letters at most."""


def parse_stat(text: str) -> Process | None:
    """The process a line of /proc/PID/stat describes; None when it does not read like one."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    try:
        return Process(
            pid=int(head.split()[0]),
            state=fields[0],
            parent=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            start_ticks=int(fields[19]),
            name=head.partition("(")[2],
        )
    except (IndexError, ValueError):
        return None


def read(pid: int) -> Process | None:
    """The process with this pid, dead ones left out."""
    # All processes of the machine are read whenever a task is signalled, so this is as close to the system as can be.
    try:
        file = os.open(f"{PROC}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = parse_stat(os.read(file, STAT_BYTES_MAX).decode(errors="replace"))
        finally:
            os.close(file)
    except OSError:
        return None
    return found if found is not None and found.state not in "ZX" else None


def is_alive(pid: int, start_ticks: int) -> bool:
    """True when this very process, not just one of its number, runs."""
    found = read(pid) if pid > 0 else None
    return found is not None and found.start_ticks == start_ticks


def everything() -> dict[int, Process]:
    """All living processes by pid."""
    found = (read(int(name)) for name in os.listdir(PROC) if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def members(processes: Mapping[int, Process], supervisor: int) -> list[int]:
    """Pids of a task's processes: all below its supervisor and all of its session, without the supervisor itself."""
    below = {supervisor}
    grew = True
    while grew:
        more = {process.pid for process in processes.values() if process.parent in below} - below
        below |= more
        grew = bool(more)
    of_session = {process.pid for process in processes.values() if process.session == supervisor}
    return sorted((below | of_session) - {supervisor})


def marked(processes: Mapping[int, Process], mark: str) -> list[int]:
    """Pids of processes with this NAME=VALUE in their first environment; for tasks whose supervisor is gone."""
    wanted = mark.encode()
    found = []
    for pid in processes:
        try:
            entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in entries:
            found.append(pid)
    return sorted(found)


def signal(pid: int, number: int) -> None:
    """Signal a process that may be gone already."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


class Ears(Struct, frozen=True):
    """What becomes of a signal that a process gets."""

    catches: bool = False
    """It has a handler."""
    blocks: bool = False
    """The signal waits until the process takes it, or until it blocks it no more."""


def ears(pid: int, number: int) -> Ears:
    """How a process meets a signal; neither for one that is gone.

    One that the kernel has stand still while another becomes a program (vfork) blocks all signals, which says nothing.
    """
    try:
        lines = (PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return Ears()
    told = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    try:
        catches, blocks = (int(told[name], 16) >> (number - 1) & 1 == 1 for name in ("SigCgt", "SigBlk"))
    except (KeyError, ValueError):
        return Ears()
    return Ears(catches=catches, blocks=blocks and not told.get("State", "").startswith(UNINTERRUPTIBLE))


def mark_of(pid: int, name: str) -> str:
    """The value behind NAME= in a process's first environment; empty when there is none or it cannot be read."""
    try:
        entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    wanted = name.encode()
    found = next((entry for entry in entries if entry.startswith(wanted)), wanted)
    return found[len(wanted) :].decode(errors="replace")
