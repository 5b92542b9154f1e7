"""From an order to a running supervisor: what is written down first, what is checked, what is passed on."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from gangline_agent import environment, supervise
from gangline_agent.environment import Place
from gangline_agent.journal import Folder, Intent
from gangline_agent.output import Caps
from gangline_agent.runner import Order
from gangline_agent.signs import flight_recorder
from gangline_core.door.terms import task_limit_s
from gangline_core.job import Job
from gangline_core.spec import Role
from gangline_kit.clock import Clock

WORKDIR = "workdir"
"""The job attribute that names the folder its programs start in."""


class LaunchError(Exception):
    """The task cannot be started as it is; the message is for its user."""


MPS_FOLDER = "/tmp/nvidia-mps"


class Settings(Struct, frozen=True):
    """What all tasks of this agent share."""

    pipe: Path
    """The named pipe through which supervisors wake the agent."""
    lease_file: Path
    lease_s: float
    """Supervisors stop their task when the lease is older; 0 is never."""
    caps: Caps = Caps()


class Launch(Struct, frozen=True):
    """Everything a supervisor is told."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    cwd: Path
    note: str
    shown: str = ""
    """How an error calls the program, if not by its name: a secret that somebody wrote there stays sealed."""


def intent(order: Order, clock: Clock) -> Intent:
    """What is written down before anything runs."""
    spec = order.job.spec
    return Intent(
        task=order.task.id,
        job=order.task.job,
        placed_ms=order.task.placed_ms,
        stop_signal=_signal_number(spec.stop_signal),
        grace_s=spec.grace_s,
        limit_s=task_limit_s(order.job, order.task.placed_ms),
        ends_at_s=ends_at_s(order.job, clock),
    )


def ends_at_s(job: Job, clock: Clock) -> float:
    """The job's deadline on the clock since boot; 0 when it has none."""
    deadline_ms = job.spec.deadline_ms
    return clock.monotonic_s() + (deadline_ms - clock.now_ms()) / 1000 if deadline_ms else 0.0


def _signal_number(name: str) -> int:
    try:
        return signal.Signals[name].value
    except KeyError:
        return signal.SIGTERM.value


def plan(
    order: Order, role: Role, folder: Folder, devices: tuple[str, ...], desk: Mapping[str, str] | None = None
) -> Launch:
    """The program, its environment and its folder; `role` has its secrets back, `desk` is where the task may ask.

    What goes wrong is told to all who may see the job, so it names the program as the order does, without secrets.

    Raises:
        LaunchError: there is nothing that could be started.
    """
    if not role.command:
        raise LaunchError("the job has no command")
    place = Place(
        folder=str(folder.path),
        notice_file=str(folder.notice),
        devices=devices,
        has_mps=mps_serves(os.environ),
        desk=_desk(folder, desk),
    )
    made = environment.build(order, role, place, os.environ)
    values = (flight_recorder(folder) if order.task.gpus else {}) | made.values
    cwd, notes = _cwd(order, folder)
    command = _filled(role, made.values)
    ordered = environment.role_of(order).command[0]
    shown = ordered if ordered != role.command[0] else ""
    program = resolve(command[0], path=values.get("PATH", os.defpath), cwd=cwd, shown=shown)
    texts = (*command, *values.values())
    if any("\0" in text for text in texts):
        raise LaunchError("the command or its environment contains a NUL character")
    note = "".join(f"[gangline: {line}]\n" for line in (*made.notes, *notes))
    return Launch(argv=(program, *command[1:]), environment=values, cwd=cwd, note=note, shown=shown)


def _filled(role: Role, values: Mapping[str, str]) -> tuple[str, ...]:
    """The command; that of a server of GPUs with its port in it."""
    if not role.serves:
        return role.command
    return tuple(argument.replace("{port}", values.get("GANGLINE_REMOTE_PORT", "")) for argument in role.command)


def mps_serves(surroundings: Mapping[str, str]) -> bool:
    """True when NVIDIA's MPS control daemon runs here: its pipe stands where programs look for it."""
    folder = Path(surroundings.get("CUDA_MPS_PIPE_DIRECTORY", MPS_FOLDER))
    return (folder / "control").exists()


def _desk(folder: Folder, desk: Mapping[str, str] | None) -> dict[str, str]:
    files = {"GANGLINE_TASK_SIZE_FILE": str(folder.size), "GANGLINE_TASK_HEARTBEAT_FILE": str(folder.heartbeat)}
    return {**files, **(desk or {})}


def _cwd(order: Order, folder: Folder) -> tuple[Path, tuple[str, ...]]:
    wanted = order.job.spec.attributes.get(WORKDIR)
    if not isinstance(wanted, str) or not wanted:
        return folder.work, ()
    if os.path.isabs(wanted) and os.path.isdir(wanted):
        return Path(wanted), ()
    return folder.work, (f"there is no folder {wanted} on this machine; started in {folder.work} instead",)


def resolve(program: str, *, path: str, cwd: Path, shown: str = "") -> str:
    """The file to execute, found as a shell would; `shown` is what an error calls it, if not by its name.

    Raises:
        LaunchError: there is none.
    """
    if "/" in program:
        candidates = [os.path.join(cwd, program)]
    else:
        candidates = [os.path.join(cwd, entry or ".", program) for entry in path.split(os.pathsep)]
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    if any(os.path.isfile(candidate) for candidate in candidates):
        raise LaunchError(f"{shown or program} is not executable")
    if "/" in program and os.path.isdir(candidates[0]):
        raise LaunchError(f"{shown or program} is a folder and no program")
    raise LaunchError(f"{shown or program} was not found{_searched(program)}")


def _searched(program: str) -> str:
    """Where it was looked for, and how to have it found."""
    if program.startswith("/"):
        return ""
    if "/" in program:
        return " in the folder that the job starts in (workdir)"
    return " in PATH; name its whole path, or give PATH in env"


def order_bytes(settings: Settings, launch: Launch, about: Intent, folder: Folder, cgroup: Mapping[str, str]) -> bytes:
    """The order as a supervisor reads it; see supervise.py."""
    fields = {
        "folder": str(folder.path),
        "intent": msgspec.json.encode(about).decode(),
        "pipe": str(settings.pipe),
        "cgroup": cgroup.get("cgroup", ""),
        "cgroup_home": cgroup.get("cgroup_home", ""),
        "cwd": str(launch.cwd),
        "note": launch.note,
        "shown": launch.shown,
        "head_bytes": str(settings.caps.head_bytes),
        "tail_bytes": str(settings.caps.tail_bytes),
        "lease_file": str(settings.lease_file),
        "lease_s": str(settings.lease_s),
        "stop_signal": str(about.stop_signal),
        "grace_s": str(about.grace_s),
        "argc": str(len(launch.argv)),
    }
    entries = [f"{name}={value}" for name, value in launch.environment.items()]
    parts = [*(fields[name] for name in supervise.FIELDS), *launch.argv, *entries]
    return "\0".join(parts).encode(errors="surrogateescape")
