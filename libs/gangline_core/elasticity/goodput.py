"""Goodput: how much a job learns per second at a size, as throughput times statistical efficiency.

Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021, section 3. With N
nodes, R members, b samples per member and s gathered steps before each update:

    T_grad = a_c + b_c b,   T_net = (a_n, b_n over nodes | a_r, b_r inside one | almost 0) as a + b max(R - 2, ~0)
    throughput = R b (s + 1) / (s T_grad + (T_grad^g + T_net^g)^(1/g))
    efficiency = ((var + sqr) / (var / k + sqr)) / k  for a batch k times the initial one

Arrays go in and come out, element by element.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Number = float | int | Floats | NDArray[np.int64]

NOTHING = 1e-8
"""The time of something that does not happen; not zero, so that logarithms and powers exist."""
BATCHES = 50
"""Total batches tried between the smallest and the largest, evenly spaced in their logarithm."""


@dataclass(frozen=True)
class Perf:
    """The seven parameters of the throughput model, in seconds."""

    ac: float
    bc: float
    an: float
    bn: float
    ar: float
    br: float
    g: float


@dataclass(frozen=True)
class Grad:
    """Squared norm of the mean gradient and trace of its covariance at the initial batch."""

    sqr: float = 0.0
    var: float = 1.0


@dataclass(frozen=True)
class Limits:
    """Batches a job may use; `local_max` 0 is none, and `batch_max` 0 keeps the initial batch."""

    initial: int
    batch_max: int = 0
    local_min: int = 1
    local_max: int = 0
    accumulates: bool = False


@dataclass(frozen=True)
class Best:
    """What a job reaches at best at some sizes, and with which batch per member and gathered steps."""

    goodput: Floats
    local: NDArray[np.int64]
    gathered: NDArray[np.int64]


def grad_time(perf: Perf, batch: Number) -> Floats:
    """Seconds of one gradient of so many samples."""
    return np.asarray(perf.ac + perf.bc * np.asarray(batch, dtype=np.float64))


def network_time(perf: Perf, nodes: Number, members: Number) -> Floats:
    """Seconds of one exchange of gradients."""
    n, r = np.asarray(nodes), np.asarray(members)
    begin = np.where(n > 1, perf.an, np.where(r > 1, perf.ar, NOTHING))
    each = np.where(n > 1, perf.bn, np.where(r > 1, perf.br, NOTHING))
    return np.asarray(begin + each * np.maximum(r - 2, NOTHING))


def step_time(perf: Perf, nodes: Number, members: Number, batch: Number) -> Floats:
    """Seconds of one gradient and its exchange, which overlap in part."""
    grad, net = grad_time(perf, batch), network_time(perf, nodes, members)
    return np.asarray((grad**perf.g + net**perf.g) ** (1 / perf.g))


def throughput(perf: Perf, *, nodes: Number, members: Number, batch: Number, gathered: Number) -> Floats:
    """Samples per second; `batch` is per member."""
    s = np.asarray(gathered, dtype=np.float64)
    seconds = s * grad_time(perf, batch) + step_time(perf, nodes, members, batch)
    return np.asarray(np.asarray(members) * np.asarray(batch) * (s + 1) / seconds)


def efficiency(grad: Grad, initial: int, batch: Number) -> Floats:
    """How much a sample of a batch of this size is worth, 1 for the initial batch."""
    scale = np.asarray(batch, dtype=np.float64) / initial
    below = grad.var / scale + grad.sqr
    gain = np.where(below > 0, (grad.var + grad.sqr) / np.where(below > 0, below, 1.0), 1.0)
    return np.asarray(gain / scale)


def goodput(
    perf: Perf, grad: Grad, initial: int, *, nodes: Number, members: Number, batch: Number, gathered: Number
) -> Floats:
    """Useful samples per second."""
    total = np.asarray(members) * np.asarray(batch) * (np.asarray(gathered) + 1)
    made = throughput(perf, nodes=nodes, members=members, batch=batch, gathered=gathered)
    return np.asarray(made * efficiency(grad, initial, total))


def optimise(perf: Perf, grad: Grad, limits: Limits, nodes: Number, members: Number) -> Best:
    """The best batch and gathered steps at each of these sizes, and the goodput with them."""
    n, r = np.broadcast_arrays(np.atleast_1d(nodes), np.atleast_1d(members))
    batch_max = max(limits.batch_max, limits.initial)
    local_max = limits.local_max or batch_max
    least = np.maximum(limits.initial, limits.local_min * r)
    totals = np.geomspace(least, np.maximum(batch_max, least), BATCHES)
    local = totals / r
    if limits.accumulates:
        gathered = np.ceil(local / local_max - NOTHING).astype(np.int64) - 1
        alone = (r == 1) & (local > limits.initial + NOTHING)
        gathered = np.maximum(np.where(alone, np.maximum(gathered, 1), gathered), 0)
        each = np.ceil(local / (gathered + 1) - NOTHING)
    else:
        gathered = np.zeros(local.shape, dtype=np.int64)
        each = np.where(r == 1, limits.initial, np.ceil(local - NOTHING))
    each = np.clip(each, limits.local_min, local_max).astype(np.int64)
    reached = goodput(perf, grad, limits.initial, nodes=n, members=r, batch=each, gathered=gathered)
    best = np.argmax(reached, axis=0)
    column = np.arange(len(r))
    return Best(goodput=reached[best, column], local=each[best, column], gathered=gathered[best, column])
