"""How jobs are put into words and cells that several commands share."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from gangline_client import quantities as q
from gangline_client.table import Cell, Paint
from gangline_core.counted import counted
from gangline_core.reasons import ReasonCode
from gangline_core.spec import JobSpec, Role
from gangline_wire import views as v
from gangline_wire.amounts import show_dimension

STATE_PAINT = {
    "held": Paint.FAINT,
    "waiting": Paint.WAIT,
    "starting": Paint.BUSY,
    "running": Paint.GOOD,
    "resizing": Paint.BUSY,
    "paused": Paint.FAINT,
    "suspended": Paint.FAINT,
    "stopping": Paint.BUSY,
    "succeeded": Paint.GOOD,
    "failed": Paint.BAD,
    "cancelled": Paint.FAINT,
    "timed_out": Paint.BAD,
    "lost": Paint.BAD,
    "ready": Paint.GOOD,
    "drained": Paint.WAIT,
    "sick": Paint.BAD,
}

EXIT_BY_STATE = {"succeeded": 0, "failed": 1, "cancelled": 130, "timed_out": 124, "lost": 1}
"""Exit code for a job that has none of its own: 124 is what `timeout` says, 130 what a shell says after Ctrl-C."""

SLURM_EXPORT = "export SLURM_"
"""How the line begins that a batch script is given in front."""
SCRIPT_CHARS = 60

NOT_STARTED = 127
"""What a shell says of a command that it does not find."""


def command_line(command: Sequence[str]) -> str:
    """A command as one types it; of a script its interpreter, its length and the first line that does something."""
    place = next((place for place, word in enumerate(command) if "\n" in word), None)
    if place is None:
        return shlex.join(command)
    lines = command[place].strip().splitlines()
    does = (line.strip() for line in lines if line.strip() and not line.startswith(("#", SLURM_EXPORT)))
    told = f"{shlex.join(command[:place])} a script of {counted(len(lines), 'line')}"
    given = f" with {shlex.join(command[place + 2 :])}" if len(command) > place + 2 else ""
    return f"{told}{given}: {next(does, '')[:SCRIPT_CHARS]} ..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean X?" where one of the known words is near, else nothing."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def state_cell(state: str) -> Cell:
    """A job's or node's state in its colour."""
    return Cell(state, STATE_PAINT.get(state, Paint.PLAIN))


def job_label(job: v.JobView | v.QueueLineView) -> str:
    """How people write the job's number: "42_7" for an element of an array."""
    return f"{job.array_job}_{job.array_index}" if job.array_job else str(job.id)


def reason_text(reason: v.ReasonView | None) -> str:
    """Code and sentence of a reason, in one line."""
    return f"{reason.code}: {reason.sentence}" if reason is not None else ""


def not_started(job: v.JobView) -> bool:
    """True when the job failed because its command could not be started; its exit code means nothing then."""
    return job.state == "failed" and job.reason is not None and job.reason.code == ReasonCode.START_FAILED


def exit_code(job: v.JobView) -> int:
    """The code that stands for how the job ended; its own where it has one that says failure."""
    if job.state == "succeeded":
        return 0
    if not_started(job):
        return NOT_STARTED
    if job.state == "failed" and job.exit_code:
        return job.exit_code
    return EXIT_BY_STATE.get(job.state, 1)


def start_range(from_ms: int | None, to_ms: int | None, *, now_ms: int) -> str:
    """An expected start such as "in 3m00s to 10m00s", or "unknown"."""
    if from_ms is None or to_ms is None:
        return "unknown"
    soonest, latest = q.duration(from_ms - now_ms), q.duration(to_ms - now_ms)
    return f"in {soonest}" if soonest == latest else f"in {soonest} to {latest}"


def role_text(role: Role) -> str:
    """What a role asks for: "4 x worker: 2 GPUs (V100), 8 CPUs, 32Gi"."""
    return f"{_count(role)} x {role.name}: {_resources(role)}"


def job_asks(spec: JobSpec) -> list[str]:
    """One line per role of the job."""
    return [role_text(role) for role in spec.roles]


def amounts(values: Mapping[str, int]) -> list[str]:
    """Amounts by dimension as a user writes them: ["gpus=2", "gpus:V100=1", "memory=16Gi"]."""
    return [f"{show_dimension(name)}={amount(name, value)}" for name, value in sorted(values.items())]


def amount(dimension: str, value: int) -> str:
    """An amount of the dimension as a user writes it."""
    match dimension.partition(":")[0]:
        case "gpu_milli" | "cpu_milli":
            return q.gpus(value)
        case "memory_mib" | "gpu_memory_mib":
            return q.memory(value)
        case _:
            return str(value)


def _count(role: Role) -> str:
    if not role.is_elastic:
        return str(role.count)
    sizes = ",".join(map(str, role.sizes)) or f"{role.min_count}..{role.max_count}"
    return f"{role.count} ({sizes})"


def _resources(role: Role) -> str:
    need = role.resources
    parts: list[str] = []
    if need.gpu_milli:
        models = f" ({' or '.join(need.gpu_models)})" if need.gpu_models else ""
        parts.append(f"{q.gpus(need.gpu_milli)} GPU{'' if need.gpu_milli == q.GPU_MILLI else 's'}{models}")
    if need.gpu_memory_mib:
        parts.append(f"{q.memory(need.gpu_memory_mib)} GPU memory")
    if need.cpu_milli:
        parts.append(f"{q.cpus(need.cpu_milli)} CPU{'' if need.cpu_milli == q.GPU_MILLI else 's'}")
    if need.memory_mib:
        parts.append(q.memory(need.memory_mib))
    parts.extend(f"{count} {device}" for device, count in need.devices.items())
    return ", ".join(parts) or "no resources named"
