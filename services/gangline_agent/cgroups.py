"""One cgroup (version 2) per task where the machine allows it: it holds even processes that left everything else."""

import hashlib
import os
from pathlib import Path

from gangline_agent.proc import PROC
from gangline_core.ids import TaskId
from gangline_wire.subjects import token


class Cgroups:
    """The agent's own cgroup and those of its tasks below it; every call does nothing where there are none."""

    def __init__(self, agent: str, *, home: Path | None, state: Path) -> None:
        """`home` is the cgroup the agent runs in, as `own` finds it, and `state` the folder of the agent's own files.

        Agents of several platforms on one machine often have one name, and their tasks too: what tells them apart, and
        the same agent after its restart from the others, is that folder.
        """
        self.home = home
        whose = hashlib.sha256(os.fsencode(state.resolve())).hexdigest()[:8]
        self.root = None if home is None else home / f"gangline-{token(agent)}-{whose}"
        try:
            if self.root is not None:
                self.root.mkdir(exist_ok=True)
        except OSError:
            self.home = self.root = None

    def make(self, task: TaskId) -> Path | None:
        """A cgroup for the task, or None."""
        path = self._path(task)
        try:
            if path is not None:
                path.mkdir(parents=True, exist_ok=True)
        except OSError:
            return None
        return path

    def pids(self, task: TaskId) -> list[int]:
        """Processes in the task's cgroup, and in those that were made below it."""
        path = self._path(task)
        if path is None:
            return []
        found = []
        for folder, _, _ in os.walk(path):
            try:
                found += [int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split()]
            except OSError:
                continue  # Gone meanwhile.
        return found

    def remove(self, task: TaskId) -> None:
        """Take an empty cgroup away, with those below it."""
        path = self._path(task)
        for folder, _, _ in os.walk(path, topdown=False) if path is not None else ():
            try:
                os.rmdir(folder)
            except OSError:
                return  # Not there, or something is in it: then it is looked at again.

    def close(self) -> None:
        """Leave nothing behind when no task is left."""
        try:
            if self.root is not None:
                self.root.rmdir()
        except OSError:
            return  # Tasks run on in it, and the agent uses it again when it is back.

    def _path(self, task: TaskId) -> Path | None:
        return None if self.root is None else self.root / token(task)


def own() -> Path | None:
    """The cgroup (version 2) of this process, or None where there is no such hierarchy."""
    try:
        mounts = (PROC / "self" / "mountinfo").read_text()
        memberships = (PROC / "self" / "cgroup").read_text()
    except OSError:
        return None
    mount, path = mount_point(mounts), membership(memberships)
    return None if mount is None or path is None else Path(mount) / path.lstrip("/")


def mount_point(mountinfo: str) -> str | None:
    """Where the version 2 hierarchy is mounted, from the text of /proc/PID/mountinfo."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return before.split()[4]
    return None


def membership(text: str) -> str | None:
    """Path of the process in the version 2 hierarchy, from the text of /proc/PID/cgroup."""
    return next((line[3:] for line in text.splitlines() if line.startswith("0::")), None)
