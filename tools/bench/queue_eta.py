"""Expected starts on the last month of the Philly trace, learnt from what came before: 512 GPUs, scored.

Beside each forecast stands what time limits alone would have said, with limits drawn by the error model that Helios
(SC 2021, section 5) used for this trace: a tenth of them within a tenth of the truth, half within a half, and so on.
"""

import tempfile
from pathlib import Path
from random import Random

from msgspec.structs import replace

from gangline_core.cluster import Policy
from gangline_lab.eta import EtaScore, score_archive, summed_up
from gangline_lab.philly import read_jobs
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import BEGIN_MS, Scenario, simulate
from gangline_lab.sim.estimates import PHILLY_ERRORS
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.workload import Arrival, Work, gpu_job, workload

DAY_S = 86_400
LEARN_DAYS, SCORE_DAYS = 7, 30
GPUS = 512
CANDIDATES = 400
"""Jobs that one round looks at."""


def eta_score(trace: Path) -> EtaScore:
    """The whole run: simulate the last weeks of a trace, keep its log, score the forecasts of the last month."""
    jobs = [job for job in read_jobs(trace) if job.gpus <= GPUS and job.run_s > 0]
    begin_s = jobs[-1].arrival_s - (LEARN_DAYS + SCORE_DAYS) * DAY_S
    random = Random("limits-1")
    arrivals = []
    for job in jobs:
        limit_s = 1 + round(job.run_s * (1 + _error(random)))
        if job.arrival_s >= begin_s:
            spec = gpu_job(f"philly-{job.number}", gpus=job.gpus, run_s=job.run_s, group=job.cluster)
            spec = replace(spec, estimate_s=0, time_limit_s=limit_s)
            arrivals.append(
                Arrival(at_ms=1000 * (job.arrival_s - begin_s), spec=spec, work=Work(run_ms=1000 * job.run_s))
            )
    policy = Policy(ordering="fifo", starvation_s=0, preemption=False, candidates_max=CANDIDATES)
    scenario = Scenario(
        trace=workload("philly", arrivals),
        fleet=read_fleet(f"{GPUS // 8}x8xV100"),
        policies={"default": policy},
        conditions=Conditions(single_gpus=True),
    )
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "archive"
        simulate(scenario, archive=archive)
        return summed_up(score_archive(archive, since_ms=BEGIN_MS + 1000 * LEARN_DAYS * DAY_S))


def _error(random: Random) -> float:
    """How much longer than the truth a limit is, as a part of it."""
    chance = random.random()
    _, least, most = next(row for row in PHILLY_ERRORS if chance <= row[0])
    return random.uniform(least, most)
