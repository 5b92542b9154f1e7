"""How long will a waiting job run? The rolling estimate of QSSF: earlier jobs like it, the recent ones weighing more.

Helios (SC 2021) blends this with a learnt model; the rolling part alone recovers nearly all of the gain of knowing run
times on a production trace and needs no training, so it is the usual predictor. Where a pool's policy carries a model
(`foresight.learnt`), what that said of a job at its submission goes before; the fold worked it out, so it replays.
"""

import numpy as np

from gangline_core.foresight.history import recall
from gangline_core.job import Job
from gangline_core.scoring import columns as c
from gangline_core.scoring.waiting import Column, Waiting

PREDICTORS = {
    "rolling": "The recent run times of jobs like it, else what the job says, else others' run times.",
    "learnt": "What the policy's model says of the job when it is submitted, else as `rolling`.",
    "told": "What the job says of itself, its estimate or else its limit, and where it says nothing as `rolling`.",
    "given": "What the job says of itself, and nothing else.",
}
"""Name of a policy's predictor -> where it takes run times from."""
LEARNT, TOLD = "learnt", "told"
UNKNOWN_RUN_S = 3_600
"""What a job counts as running when nothing is known about it."""
SAMPLES_LEAST = 3
"""Fewer earlier jobs of a class say nothing; then a wider class is asked."""
FADE = 0.9
"""Each older run time weighs so many times the next younger one."""


def predicted_seconds(waiting: Waiting) -> Column:
    """Expected run time per job: by its user's earlier jobs, else the estimate, the limit, or others' jobs."""
    if not len(waiting):
        return np.zeros(0)
    history = waiting.state.kept.history if waiting.policy.predictor != "given" else {}

    def by_own(job: Job) -> float:
        found = recall(history, job.spec, least=SAMPLES_LEAST, of_user=True)
        return rolling_ms(found) / 1000 if found else -1.0

    own = waiting.per(c.KIND, by_own) if history else np.full(len(waiting), -1.0)
    if waiting.policy.predictor == LEARNT:
        learnt_ms = waiting.field(c.LEARNT_MS)
        own = np.where(learnt_ms >= 0, learnt_ms / 1000, own)
    estimate, limit = waiting.field(c.ESTIMATE_S), waiting.field(c.LIMIT_S)
    said = np.where(estimate > 0, estimate, limit).astype(np.float64)
    is_believed = (said > 0) & (waiting.policy.predictor == TOLD)
    if bool(((own < 0) & (said <= 0)).any()):
        others = waiting.per(c.KIND, lambda job: rolling_ms(recall(history, job.spec, least=1)) / 1000)
        said = np.where(said > 0, said, others)
    found = np.where((own >= 0) & ~is_believed, own, said)
    return np.where(limit > 0, np.minimum(found, limit), found)


def rolling_ms(samples: tuple[int, ...]) -> float:
    """The mean of run times, oldest first, in which older ones fade; 0 of none."""
    if not samples:
        return 0.0
    total = weights = 0.0
    for sample in samples:
        total = total * FADE + sample
        weights = weights * FADE + 1.0
    return total / weights
