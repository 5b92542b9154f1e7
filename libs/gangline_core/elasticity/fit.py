"""The throughput model fitted to the step times a job reported (Pollux, section 4.1; AdaptDL's bounds and starts).

What was never seen is not guessed at: without a run on several nodes their terms are taken a tenth above those inside
one node, without a run on several members the exchange costs nothing, so that a job is first tried larger.
"""

from functools import lru_cache

import numpy as np

from gangline_core.elasticity.goodput import NOTHING, Floats, Perf, grad_time, step_time
from gangline_core.progress import Point

KEPT = 4096
"""Fits remembered: the same reports give the same fit."""
START = np.array([0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001])
LEAST = np.array([NOTHING] * 6 + [1.0])
MOST = np.array([np.inf] * 6 + [10.0])
DISTANT = 1.1
"""Terms over nodes are at least so much of those inside one, while none were seen."""
DIGITS = 12
"""Fits are rounded to so many digits, so that equal reports decide alike."""


@lru_cache(maxsize=KEPT)
def fitted(points: tuple[Point, ...]) -> Perf:
    """The parameters that explain these step times best; at least one is needed."""
    from scipy.optimize import minimize  # type: ignore[import-untyped]  # no hints; heavy, so only where jobs report

    nodes = np.array([point.nodes for point in points])
    members = np.array([point.members for point in points])
    batch = np.array([point.batch for point in points], dtype=np.float64)
    gathered = np.array([point.gathered for point in points])
    seconds = np.array([point.step_us for point in points]) / 1e6
    start, least, most = START.copy(), LEAST.copy(), MOST.copy()
    if len(np.unique(batch)) == 1:
        start[0] = least[0] = most[0] = seconds.mean() / 2
    for unseen, columns in ((~np.any(nodes > 1), (2, 3)), (~np.any((nodes == 1) & (members > 1)), (4, 5))):
        for column in columns if unseen else ():
            start[column] = least[column] = most[column] = NOTHING
    if not np.any(members > 2):
        start[3] = least[3] = most[3] = start[5] = least[5] = most[5] = NOTHING

    def loss(values: Floats) -> float:
        perf = Perf(*values.tolist())
        model = gathered * grad_time(perf, batch) + step_time(perf, nodes, members, batch)
        fault = float(np.sqrt(np.mean((np.log(model) - np.log(seconds)) ** 2)))
        spread = 1e-2 * ((perf.bn / perf.an) ** 2 + (perf.br / perf.ar) ** 2) + 1e-3 * (perf.g - 1) ** 2
        return fault + spread

    found = minimize(loss, start, method="L-BFGS-B", bounds=list(zip(least, most, strict=True)))
    ac, bc, an, bn, ar, br, g = (float(f"%.{DIGITS}g" % value) for value in found.x)
    if not np.any(nodes > 1):
        an, bn = max(an, ar * DISTANT), max(bn, br * DISTANT)
    return Perf(ac=ac, bc=bc, an=an, bn=bn, ar=ar, br=br, g=g)
