"""How much did jobs like this one use of what they had? Use over a whole run, kept as jobs end, by class.

Classes are those of run times (see `history`), of the user's own jobs only: what others need says little about a
program. A value that was never measured is -1 and counts for nothing.
"""

from collections.abc import Mapping

from msgspec import Struct

from gangline_core.facts import JobUsed
from gangline_core.foresight.history import CLASSES_MAX, OF_USER, classes
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.spec import JobSpec

KEPT_USES = 16
"""Uses remembered per class, of the last so many jobs."""
RUN_S_LEAST = 60
"""A run that was watched for less says nothing about what the program needs."""


class PastUse(Struct, frozen=True, array_like=True, gc=False):
    """What one run used: percentages are means over the run, memory is the most that was seen."""

    gpu_percent: int = -1
    gpu_memory_mib: int = -1
    cpu_milli: int = -1
    """Thousandths of a CPU that all members used together."""
    memory_mib: int = -1


class UseRecord(Struct, frozen=True, array_like=True, gc=False):
    """Sums over the run of a live job so far."""

    gpu_s: int = 0
    gpu_percent_s: int = 0
    cpu_s: int = 0
    cpu_milli_s: int = 0
    gpu_memory_mib: int = -1
    memory_mib: int = -1


def added(record: UseRecord | None, fact: JobUsed) -> UseRecord:
    """The record after another summary."""
    known = record or UseRecord()
    has_gpu, has_cpu = fact.gpu_percent >= 0, fact.cpu_milli >= 0
    seconds = fact.summary_s or fact.window_s
    return UseRecord(
        gpu_s=known.gpu_s + (seconds if has_gpu else 0),
        gpu_percent_s=known.gpu_percent_s + (fact.gpu_percent * seconds if has_gpu else 0),
        cpu_s=known.cpu_s + (seconds if has_cpu else 0),
        cpu_milli_s=known.cpu_milli_s + (fact.cpu_milli * seconds if has_cpu else 0),
        gpu_memory_mib=max(known.gpu_memory_mib, fact.memory_mib_max),
        memory_mib=max(known.memory_mib, fact.host_memory_mib),
    )


def note_use(history: dict[str, tuple[PastUse, ...]], records: dict[JobId, UseRecord], job: Job) -> None:
    """A job ended: what it used is remembered with its classes; what was watched too shortly is not."""
    record = records.pop(job.id, None)
    if record is None or max(record.gpu_s, record.cpu_s) < RUN_S_LEAST:
        return
    use = PastUse(
        gpu_percent=record.gpu_percent_s // record.gpu_s if record.gpu_s else -1,
        gpu_memory_mib=record.gpu_memory_mib,
        cpu_milli=record.cpu_milli_s // record.cpu_s if record.cpu_s else -1,
        memory_mib=record.memory_mib,
    )
    for name in classes(job.spec)[:OF_USER]:
        history[name] = (*history.pop(name, ())[1 - KEPT_USES :], use)
    while len(history) > CLASSES_MAX:
        del history[next(iter(history))]


def recall_use(history: Mapping[str, tuple[PastUse, ...]], spec: JobSpec) -> tuple[PastUse, ...]:
    """Uses of the user's own jobs most like this one, oldest first; empty when there were none."""
    for name in classes(spec)[:OF_USER]:
        found = history.get(name, ())
        if found:
            return found
    return ()


def usual_percent(history: Mapping[str, tuple[PastUse, ...]], spec: JobSpec) -> int:
    """Mean GPU use of the user's own jobs most like this one; -1 when it was never measured."""
    seen = [use.gpu_percent for use in recall_use(history, spec) if use.gpu_percent >= 0]
    return sum(seen) // len(seen) if seen else -1
