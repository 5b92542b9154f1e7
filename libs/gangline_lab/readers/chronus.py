"""The Chronus list of Philly jobs with deadlines: `job_id,user,num_gpu,submit_time,iterations,model_name,duration,
interval,expect_time_list,expect_value_list,best_effort,job_type`; times in minutes.

`expect_time_list` is the deadline after submission. A best-effort job has none and is opportunistic.
"""

from pathlib import Path

from msgspec.structs import replace

from gangline_core.spec import ServiceClass
from gangline_lab.rows import Row, read_table
from gangline_lab.sim.workload import Arrival, Work, Workload, gpu_job, workload

NEEDED = ("job_id", "user", "num_gpu", "submit_time", "model_name", "duration", "expect_time_list", "best_effort")
MINUTE_MS = 60_000
GPUS_MAX = 100_000


def read_chronus(path: Path) -> Workload:
    """All jobs; each user of the list (a virtual cluster) is a group.

    Raises:
        TraceError: with line and column.
    """
    rows = list(read_table(path, NEEDED))
    # The published list has jobs without GPUs, and says nothing of the cores that they took.
    asking = [row for row in rows if row.whole("num_gpu", most=GPUS_MAX)]
    left_out = {"jobs without GPUs": len(rows) - len(asking)} if len(asking) < len(rows) else {}
    return workload(path.name, [_arrival(row) for row in asking], left_out=left_out)


def _arrival(row: Row) -> Arrival:
    run_ms = row.time_ms("duration", unit_ms=MINUTE_MS)
    spec = gpu_job(
        f"chronus-{row.whole('job_id')}",
        gpus=row.whole("num_gpu", least=1, most=GPUS_MAX),
        run_s=run_ms // 1000,
        group=row.text("user"),
        attributes={"model": row.text("model_name")},
    )
    is_loose = row.whole("best_effort", most=1) == 1
    if is_loose:
        spec = replace(spec, service_class=ServiceClass.OPPORTUNISTIC)
    deadline_ms = 0 if is_loose else row.time_ms("expect_time_list", unit_ms=MINUTE_MS)
    work = Work(run_ms=run_ms, row=row.text("model_name"), deadline_ms=deadline_ms)
    return Arrival(at_ms=row.time_ms("submit_time", unit_ms=MINUTE_MS), spec=spec, work=work)
