"""Gavel's and Shockwave's traces: tab-separated lines without a header, arrival in seconds, work in steps.

Gavel: job_type, command, working_directory, num_steps_arg, needs_data_dir, total_steps, scale_factor (GPUs),
priority_weight, SLO, arrival. Shockwave has `mode` (static, accordion, gns) after scale_factor, and the run time in
seconds before the arrival. `job_type` names the row of a throughput table: "ResNet-50 (batch size 64)".
"""

import re
from pathlib import Path

from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role
from gangline_lab.rows import TIME_MAX_S, Row, check_cells, read_lines
from gangline_lab.sim.workload import UNKNOWN_MS, Arrival, Work, Workload, workload

FRONT = ("job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir", "total_steps", "scale_factor")
GAVEL = (*FRONT, "priority_weight", "SLO", "arrival")
SHOCKWAVE = (*FRONT, "mode", "priority_weight", "SLO", "duration", "arrival")
MODES = ("static", "accordion", "gns")
BATCH = re.compile(r".+ \(batch size (\d{1,7})\)")
SCALE_MAX = 4_096
STEPS_MAX = 10**12


def read_gavel(path: Path) -> Workload:
    """All jobs; their run times follow from a throughput table, which a simulation of them needs.

    Raises:
        TraceError: with line and column.
    """
    return workload(path.name, [_arrival(row, number, False) for number, row in enumerate(_rows(path, GAVEL))])


def read_shockwave(path: Path) -> Workload:
    """All jobs, with the mode in which each changes its batch size.

    Raises:
        TraceError: with line and column.
    """
    return workload(path.name, [_arrival(row, number, True) for number, row in enumerate(_rows(path, SHOCKWAVE))])


def _rows(path: Path, columns: tuple[str, ...]) -> list[Row]:
    rows = []
    for number, text in read_lines(path):
        cells = text.split("\t")
        check_cells(cells, columns, path.name, number)
        rows.append(Row(dict(zip(columns, cells, strict=True)), file=path.name, line=number))
    return rows


def _arrival(row: Row, number: int, dynamic: bool) -> Arrival:
    job_type = row.text("job_type")
    named = BATCH.fullmatch(job_type)
    scale = row.whole("scale_factor", least=1, most=SCALE_MAX)
    steps = row.whole("total_steps", least=1, most=STEPS_MAX)
    mode = row.text("mode") if dynamic else "static"
    if mode not in MODES:
        raise row.error("mode", f"expected one of {', '.join(MODES)}, found {mode!r}")
    run_ms = row.time_ms("duration") if dynamic else UNKNOWN_MS
    role = Role(name="worker", count=scale, min_count=scale, max_count=scale, resources=Resources(gpu_milli=GPU_MILLI))
    spec = JobSpec(
        name=f"job-{number}",
        group="all",
        user="trace",
        roles=(role,),
        attributes={"model": job_type, "weight": row.number("priority_weight")},
        estimate_s=max(0, run_ms // 1000) if dynamic else 0,
    )
    slo_s = row.number("SLO", least=-1, most=TIME_MAX_S)
    work = Work(
        run_ms=run_ms,
        row=job_type,
        steps=steps,
        batch_size=int(named[1]) if named else 0,
        mode="" if mode == "static" else mode,
        deadline_ms=round(1000 * slo_s) if slo_s > 0 else 0,
    )
    return Arrival(at_ms=round(1000 * row.number("arrival", most=TIME_MAX_S)), spec=spec, work=work)
