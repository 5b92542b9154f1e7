"""Slurm's accounting: `sacct -P -X -o JobID,JobName,User,Account,Partition,Submit,Start,End,State,Timelimit,AllocTRES`.

Times as sacct writes them (2024-05-01T10:00:00, or Unknown), limits as [days-]hours:minutes:seconds. GPUs come from
`gres/gpu=N` (and their model from `gres/gpu:model=N`), CPUs and memory from the same cell; typed GPUs are added up
where the total is missing, and a job is split evenly over its `node=N`. Job steps (`12.batch`), jobs that never started
and those that had not ended are left out and counted.
"""

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role
from gangline_lab.rows import TIME_MAX_S, Row, read_table, shown
from gangline_lab.sim.workload import Arrival, Work, Workload, split, workload

NEEDED = ("JobID", "Submit", "Start", "End", "State", "AllocTRES")
OPTIONAL = ("User", "Account", "JobName", "Partition", "Timelimit", "Priority")
TIME_FORM = "%Y-%m-%dT%H:%M:%S"
NEVER = frozenset({"", "Unknown", "None"})
LIMIT = re.compile(r"(?:([0-9]{1,9})-)?([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9})")
MEMORY = re.compile(r"([0-9]{1,300}(?:\.[0-9]+)?)([KMGT]?)")
MIB = {"K": 1 / 1024, "M": 1.0, "": 1.0, "G": 1024.0, "T": 1024.0 * 1024}
AMOUNT_MAX = 1_000_000
"""Most GPUs, CPUs, nodes or TiB of one job that are believed."""
PER_NODE = 8
"""GPUs of a node, where the accounting does not say how a job was split."""


def read_sacct(path: Path) -> Workload:
    """All jobs that ran; each account is a group.

    Raises:
        TraceError: with line and column.
    """
    rows = read_table(path, NEEDED, optional=OPTIONAL, separator="|")
    left_out: Counter[str] = Counter()
    ran = [row for row in rows if not _is_left_out(row, left_out)]
    begin = min((_time_s(row, "Submit") for row in ran), default=0)
    return workload(path.name, [_arrival(row, begin) for row in ran], left_out=left_out)


def _is_left_out(row: Row, left_out: "Counter[str]") -> bool:
    """Counts why a row makes no job of a trace."""
    why = ""
    if "." in row.text("JobID"):
        why = "job steps"
    elif row.optional("Start") in NEVER:
        why = "jobs that never started"
    elif row.optional("End") in NEVER:
        why = "jobs that had not ended"
    if why:
        left_out[why] += 1
    return bool(why)


def _time_s(row: Row, column: str) -> int:
    text = row.text(column)
    try:
        return int(datetime.strptime(text, TIME_FORM).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise row.error(column, f"expected a time such as 2024-05-01T10:00:00, found {text!r}") from None


def _arrival(row: Row, begin: int) -> Arrival:
    submit, start, end = (_time_s(row, column) for column in ("Submit", "Start", "End"))
    if not 0 <= end - start <= TIME_MAX_S:
        raise row.error("End", "is before Start" if end < start else "is more than a century after Start")
    resources, tasks = _resources(row)
    limit_s = _limit_s(row)
    run_s = max(1, end - start)
    spec = JobSpec(
        name=f"{row.optional('JobName') or 'job'}-{row.text('JobID')}",
        group=row.optional("Account") or "all",
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
    typed = {name.partition(":")[2]: value for name, value in cells.items() if name.startswith("gres/gpu:")}
    gpus = _count(row, cells["gres/gpu"]) if "gres/gpu" in cells else sum(_count(row, o) for o in typed.values())
    nodes = max(1, _count(row, cells.get("node", "1")))
    # Without an equal number on each node the accounting does not tell the split.
    tasks = (nodes if "node" in cells and gpus % nodes == 0 else split(gpus, PER_NODE)) if gpus else nodes
    resources = Resources(
        gpu_milli=gpus // tasks * GPU_MILLI,
        gpu_models=tuple(sorted(typed)) if gpus else (),
        cpu_milli=1000 * _count(row, cells.get("cpu", "0")) // tasks,
        memory_mib=_memory_mib(row, cells.get("mem", "0")) // tasks,
    )
    return resources, tasks


def _count(row: Row, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise row.error("AllocTRES", f"expected a whole number, found {shown(text)}")
    if len(text) > len(str(AMOUNT_MAX)) or int(text) > AMOUNT_MAX:
        raise row.error("AllocTRES", f"expected a number up to {AMOUNT_MAX}, found {shown(text)}")
    return int(text)


def _memory_mib(row: Row, text: str) -> int:
    found = MEMORY.fullmatch(text)
    if found is None:
        raise row.error("AllocTRES", f"expected memory such as 64G, found {shown(text)}")
    mib = float(found[1]) * MIB[found[2]]
    if mib > AMOUNT_MAX * MIB["T"]:
        raise row.error("AllocTRES", f"expected memory up to {AMOUNT_MAX}T, found {shown(text)}")
    return round(mib)


def _limit_s(row: Row) -> int:
    text = row.optional("Timelimit")
    if text in NEVER or text in ("UNLIMITED", "Partition_Limit"):
        return 0
    found = LIMIT.fullmatch(text)
    if found is None:
        raise row.error("Timelimit", f"expected [days-]hours:minutes:seconds, found {shown(text)}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    limit_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if limit_s > TIME_MAX_S:
        raise row.error("Timelimit", f"expected no more than a century, found {shown(text)}")
    return limit_s
