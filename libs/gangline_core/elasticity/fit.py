"""The throughput model fitted to the step times a job reported (Pollux, section 4.1, with AdaptDL's priors).

Least squares of the logarithms by Levenberg and Marquardt's method, over the logarithms of the parameters, so that all
stay positive. What was never seen is not guessed at: without a run on several members the exchange costs nothing, so
that a job is tried larger once; without a run on several nodes their terms are a tenth above those inside one node.
"""

from functools import lru_cache

import numpy as np

from gangline_core.elasticity.goodput import NOTHING, Floats, Perf
from gangline_core.sizes.progress import Point

KEPT = 4096
"""Fits remembered: the same reports give the same fit."""
ROUNDS_MAX = 40
ENOUGH = 1e-9
"""A round that makes the fit better by less than this part of it is the last."""
DISTANT = 1.1
"""Terms over nodes are at least so much of those inside one, while none were seen."""
LEAST, MOST = float(np.log(NOTHING)), float(np.log(1e6))
OVERLAP_LEAST, OVERLAP_MOST = float(np.log(1e-3)), float(np.log(9.0))
"""The seventh parameter is the logarithm of g - 1."""
STEP = 1e-4
DIGITS = 4
"""Fits are rounded to so many digits: far more than reports tell, and few enough that the last bits in which kinds of
CPUs differ, and which the search makes larger, decide nothing."""
AC, BC, AN, BN, AR, BR, G = range(7)


class Seen:
    """Reported step times as columns."""

    def __init__(self, points: tuple[Point, ...]) -> None:
        """At least one is needed."""
        self.batch = np.array([point.batch for point in points], dtype=np.float64)
        self.gathered = np.array([point.gathered for point in points], dtype=np.float64)
        self.seconds = np.array([point.step_us for point in points]) / 1e6
        members, nodes = np.array([p.members for p in points]), np.array([p.nodes for p in points])
        self.far, self.near = nodes > 1, (nodes == 1) & (members > 1)
        self.more = np.maximum(members - 2, NOTHING)
        self.target = np.log(self.seconds)

    def faults(self, logs: Floats) -> Floats:
        """How far the model is from what was seen, one row per row of parameters; the last columns are priors."""
        ac, bc, an, bn, ar, br = (np.exp(logs[:, k])[:, None] for k in range(6))
        g = 1 + np.exp(logs[:, G])[:, None]
        grad = ac + bc * self.batch
        net = np.where(self.far, an + bn * self.more, np.where(self.near, ar + br * self.more, NOTHING))
        # In logarithms, since high powers of small times would vanish.
        top = np.maximum(grad, net)
        step = top * ((grad / top) ** g + (net / top) ** g) ** (1 / g)
        faults = (np.log(self.gathered * grad + step) - self.target) / np.sqrt(len(self.target))
        priors = np.concatenate([0.1 * bn / an, 0.1 * br / ar, 0.03 * (g - 1)], axis=1)
        return np.concatenate([faults, priors], axis=1)


@lru_cache(maxsize=KEPT)
def fitted(points: tuple[Point, ...]) -> Perf:
    """The parameters that explain these step times best; at least one is needed."""
    seen = Seen(points)
    start, free = _start(seen)
    logs = _descend(seen, start, free)
    ac, bc, an, bn, ar, br = (float(f"%.{DIGITS}g" % value) for value in np.exp(logs[:6]))
    g = float(f"%.{DIGITS}g" % (1 + np.exp(logs[G])))
    if not seen.far.any():
        an, bn = max(an, ar * DISTANT), max(bn, br * DISTANT)
    return Perf(ac=ac, bc=bc, an=an, bn=bn, ar=ar, br=br, g=g)


def _start(seen: Seen) -> tuple[Floats, list[int]]:
    """Where the search begins, and which parameters it may change."""
    mean, batch = float(seen.seconds.mean()), float(seen.batch.mean())
    guess = np.array([mean / 2, mean / 2 / batch, mean / 5, mean / 50, mean / 10, mean / 100, 0.1])
    free = {AC, BC, AN, BN, AR, BR, G}
    if len(np.unique(seen.batch)) == 1:
        free -= {AC}
    for unseen, terms in ((not seen.far.any(), {AN, BN}), (not seen.near.any(), {AR, BR})):
        if unseen:
            free -= terms
            guess[sorted(terms)] = NOTHING
    if not (seen.more >= 1).any():
        free -= {BN, BR}
        guess[[BN, BR]] = NOTHING
    if not (seen.far.any() or seen.near.any()):
        free -= {G}
    return np.log(guess), sorted(free)


def _descend(seen: Seen, logs: Floats, free: list[int]) -> Floats:
    """Levenberg and Marquardt: steps between Newton's and the steepest one, never uphill."""
    damping = 1e-2
    faults = seen.faults(logs[None])[0]
    cost = float(faults @ faults)
    for _ in range(ROUNDS_MAX):
        tried = np.repeat(logs[None], len(free), axis=0)
        tried[np.arange(len(free)), free] += STEP
        slope = ((seen.faults(tried) - faults) / STEP).T
        square = slope.T @ slope
        pull = slope.T @ faults
        better = None
        while better is None and damping < 1e9:
            step = np.linalg.solve(square + damping * (np.diag(np.diag(square)) + 1e-9 * np.eye(len(free))), -pull)
            trial = logs.copy()
            trial[free] = _bounded(trial[free] + np.clip(step, -2, 2), free)
            trial_faults = seen.faults(trial[None])[0]
            trial_cost = float(trial_faults @ trial_faults)
            if trial_cost < cost:
                better = (trial, trial_faults, trial_cost)
            damping = damping / 5 if better else damping * 5
        if better is None or cost - better[2] < ENOUGH * cost:
            break
        logs, faults, cost = better
    return logs


def _bounded(logs: Floats, free: list[int]) -> Floats:
    low = np.array([OVERLAP_LEAST if k == G else LEAST for k in free])
    high = np.array([OVERLAP_MOST if k == G else MOST for k in free])
    return np.clip(logs, low, high)
