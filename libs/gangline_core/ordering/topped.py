"""Jobs that somebody put first among their own: they change places with their fellows, and nobody else moves."""

import numpy as np

from gangline_core.groups import ROOT, ancestors, user_key
from gangline_core.job import Job
from gangline_core.scoring.columns import Ints
from gangline_core.scoring.waiting import Waiting


def put_first(waiting: Waiting, sequence: Ints) -> Ints:
    """The order of the waiting jobs (their rows) with those put first moved up.

    Each goes to the first place that any of its fellows has, and these move down by one of their own places; who was
    put first last goes first of all.
    """
    kept, chosen = waiting.state.kept.jobs, waiting.state.door.topped.get(waiting.pool.pool.name)
    if not chosen:
        return sequence
    jobs, order = waiting.jobs, sequence.tolist()
    for name in sorted(chosen, key=lambda job: kept[job].topped):
        first = kept[name]
        fellows = [place for place, row in enumerate(order) if is_among(jobs[row], first.topped_in)]
        own = next((k for k, place in enumerate(fellows) if jobs[order[place]].id == name), None)
        if own is None:
            continue
        rows = [order[place] for place in fellows[: own + 1]]
        for place, row in zip(fellows, [rows[-1], *rows[:-1]], strict=False):
            order[place] = row
    return np.array(order, dtype=np.int64)


def is_among(job: Job, scope: str) -> bool:
    """True when the job is one of those of this user or group."""
    spec = job.spec
    return scope == ROOT or scope == user_key(spec.group, spec.user) or scope in ancestors(spec.group)
