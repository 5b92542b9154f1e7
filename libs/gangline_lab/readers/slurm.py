"""Slurm's accounting: `sacct -P -X -o JobID,JobName,User,Account,Partition,Submit,Start,End,State,Timelimit,AllocTRES`.

Times as sacct writes them (2024-05-01T10:00:00, or Unknown), limits as [days-]hours:minutes:seconds. GPUs come from
`gres/gpu=N` (and their model from `gres/gpu:model=N`), CPUs and memory from the same cell. Job steps (`12.batch`) and
jobs that never started are left out.
"""

import re
from datetime import UTC, datetime
from pathlib import Path

from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role
from gangline_lab.rows import Row, read_table
from gangline_lab.sim.workload import Arrival, Work, Workload, split, workload

NEEDED = ("JobID", "User", "Account", "Submit", "Start", "End", "State", "AllocTRES")
OPTIONAL = ("JobName", "Partition", "Timelimit", "Priority")
TIME_FORM = "%Y-%m-%dT%H:%M:%S"
NEVER = frozenset({"", "Unknown", "None"})
LIMIT = re.compile(r"(?:(\d+)-)?(\d+):(\d+):(\d+)")
MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)")
MIB = {"K": 1 / 1024, "M": 1.0, "": 1.0, "G": 1024.0, "T": 1024.0 * 1024}
PER_NODE = 8
"""GPUs of a node, where the accounting does not say how a job was split."""


def read_sacct(path: Path) -> Workload:
    """All jobs that ran; each account is a group.

    Raises:
        TraceError: with line and column.
    """
    rows = [row for row in read_table(path, NEEDED, optional=OPTIONAL, separator="|") if "." not in row.text("JobID")]
    ran = [row for row in rows if row.optional("Start") not in NEVER and row.optional("End") not in NEVER]
    begin = min((_time_s(row, "Submit") for row in ran), default=0)
    return workload(path.name, [_arrival(row, begin) for row in ran])


def _time_s(row: Row, column: str) -> int:
    text = row.text(column)
    try:
        return int(datetime.strptime(text, TIME_FORM).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise row.error(column, f"expected a time such as 2024-05-01T10:00:00, found {text!r}") from None


def _arrival(row: Row, begin: int) -> Arrival:
    submit, start, end = (_time_s(row, column) for column in ("Submit", "Start", "End"))
    if end < start:
        raise row.error("End", "is before Start")
    resources, tasks = _resources(row)
    limit_s = _limit_s(row)
    run_s = max(1, end - start)
    spec = JobSpec(
        name=f"{row.optional('JobName') or 'job'}-{row.text('JobID')}",
        group=row.text("Account"),
        user=row.optional("User") or "unknown",
        roles=(Role(name="worker", count=tasks, min_count=tasks, max_count=tasks, resources=resources),),
        estimate_s=limit_s or run_s,
        time_limit_s=max(limit_s, run_s) if limit_s else 0,
        labels={"partition": row.optional("Partition")} if row.optional("Partition") else {},
    )
    failed = row.optional("State").partition(" ")[0] in ("FAILED", "NODE_FAIL", "OUT_OF_MEMORY")
    return Arrival(at_ms=1000 * (submit - begin), spec=spec, work=Work(run_ms=1000 * run_s, exit_code=int(failed)))


def _resources(row: Row) -> tuple[Resources, int]:
    cells: dict[str, str] = {}
    for part in row.optional("AllocTRES").split(","):
        name, mark, value = part.partition("=")
        if part and not mark:
            raise row.error("AllocTRES", f"expected name=amount, found {part!r}")
        cells[name] = value
    gpus = _count(row, cells.get("gres/gpu", "0"))
    model = next((name.partition(":")[2] for name in cells if name.startswith("gres/gpu:")), "")
    tasks = split(gpus, PER_NODE) if gpus else max(1, _count(row, cells.get("node", "1")))
    resources = Resources(
        gpu_milli=gpus // tasks * GPU_MILLI,
        gpu_models=(model,) if model else (),
        cpu_milli=1000 * _count(row, cells.get("cpu", "0")) // tasks,
        memory_mib=_memory_mib(row, cells.get("mem", "0")) // tasks,
    )
    return resources, tasks


def _count(row: Row, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise row.error("AllocTRES", f"expected a whole number, found {text!r}")
    return int(text)


def _memory_mib(row: Row, text: str) -> int:
    found = MEMORY.fullmatch(text)
    if found is None:
        raise row.error("AllocTRES", f"expected memory such as 64G, found {text!r}")
    return round(float(found[1]) * MIB[found[2]])


def _limit_s(row: Row) -> int:
    text = row.optional("Timelimit")
    if text in NEVER or text in ("UNLIMITED", "Partition_Limit"):
        return 0
    found = LIMIT.fullmatch(text)
    if found is None:
        raise row.error("Timelimit", f"expected [days-]hours:minutes:seconds, found {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
