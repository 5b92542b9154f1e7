"""Jobs that somebody put first among their own: they change places with their fellows, and nobody else moves."""

import numpy as np

from gangline_core.groups import ROOT, ancestors, user_key
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.scoring.columns import Ints
from gangline_core.state import State


def put_first(state: State, pool: str, ids: Ints) -> Ints:
    """The order of the waiting jobs (places in `ids`, which are in order) with those put first moved up.

    Each goes to the first place that any of its fellows has, and these move down by one of their own places; who was
    put first last goes first of all.
    """
    places = np.arange(len(ids))
    chosen = state.door.topped.get(pool)
    if not chosen:
        return places
    jobs = [state.kept.jobs[JobId(job)] for job in ids.tolist()]
    order = list(range(len(jobs)))
    for name in sorted(chosen, key=lambda job: state.kept.jobs[job].topped):
        first = state.kept.jobs[name]
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
