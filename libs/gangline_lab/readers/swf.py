"""The Standard Workload Format: 18 numbers a line, `;` begins a comment; times in seconds, -1 means unknown.

Used: 1 job number, 2 submit, 4 run time, 5 processors used, 8 processors asked for, 9 time asked for, 11 status,
12 user, 13 group, 16 partition. A processor is one GPU; jobs without run time or processors are left out and
counted, as the format's own tools do.
"""

from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from gangline_lab.rows import TIME_MAX_S, TraceError, read_lines, shown
from gangline_lab.sim.workload import Arrival, Work, Workload, gpu_job, workload

FIELDS = 18
JOB, SUBMIT, RUN, USED, ASKED, ASKED_S, STATUS, USER, GROUP = 0, 1, 3, 4, 7, 8, 10, 11, 12
NAMES = {JOB: "job number", SUBMIT: "submit time", RUN: "run time", USED: "processors", ASKED: "requested processors"}
GPUS_MAX = 1_000_000


def read_swf(path: Path) -> Workload:
    """All jobs that ran.

    Raises:
        TraceError: with line and column.
    """
    arrivals = []
    left_out: Counter[str] = Counter()
    for number, text in read_lines(path):
        if text.lstrip().startswith(";"):
            continue
        values = _numbers(text, path.name, number)
        gpus = values[ASKED] if values[ASKED] > 0 else values[USED]
        if values[RUN] <= 0 or gpus <= 0:
            left_out["jobs without a run time" if values[RUN] <= 0 else "jobs without processors"] += 1
            continue
        if gpus > GPUS_MAX:
            raise TraceError(f"more than {GPUS_MAX} processors", file=path.name, line=number, column="processors")
        for place in (SUBMIT, RUN, ASKED_S):
            if values[place] > TIME_MAX_S:
                problem = f"a time of more than {TIME_MAX_S} s"
                raise TraceError(problem, file=path.name, line=number, column=NAMES.get(place, "requested time"))
        spec = gpu_job(
            f"swf-{values[JOB]}",
            gpus=gpus,
            run_s=values[ASKED_S] if values[ASKED_S] > 0 else values[RUN],
            group=f"group-{max(0, values[GROUP])}",
            user=f"user-{max(0, values[USER])}",
        )
        if values[ASKED_S] > 0:
            spec = replace(spec, time_limit_s=max(values[ASKED_S], values[RUN]))
        work = Work(run_ms=1000 * values[RUN], exit_code=1 if values[STATUS] == 0 else 0)
        arrivals.append(Arrival(at_ms=1000 * max(0, values[SUBMIT]), spec=spec, work=work))
    return workload(path.name, arrivals, left_out=left_out)


def _numbers(text: str, file: str, line: int) -> list[int]:
    cells = text.split()
    if len(cells) != FIELDS:
        raise TraceError(f"expected {FIELDS} numbers, found {len(cells)}", file=file, line=line)
    values = []
    for place, cell in enumerate(cells):
        try:
            values.append(round(float(cell)))
        except (ValueError, OverflowError):
            column = NAMES.get(place, f"field {place + 1}")
            raise TraceError(f"expected a number, found {shown(cell)}", file=file, line=line, column=column) from None
    return values
