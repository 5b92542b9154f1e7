"""How jobs change their batch size on the way, as the trace of Shockwave (NSDI 2023) has it: accordion or gns.

gns doubles the batch at known epochs (by model, first batch size and GPUs); accordion trains with the largest batch
except in critical regimes. Tables and constants are those of the published simulator; so is the manner: a change is
noticed at the end of a round of training, and holds after the next one.
"""

from collections.abc import Callable
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

DATASET = {"ResNet-18": 50_000, "ResNet-50": 100_000, "Transformer": 10_000, "LM": 59_675, "Recommendation": 117_907}
"""Samples of an epoch."""
LARGEST = {"ResNet-18": 256, "ResNet-50": 128, "Transformer": 128, "LM": 80, "Recommendation": 8_192}
STEADY = "Transformer"
"""The model that accordion leaves alone."""
DOUBLINGS: dict[tuple[str, int, int], tuple[int, ...]] = {
    ("ResNet-18", 16, 1): (31, 41, 51, 71),
    ("ResNet-18", 32, 1): (21, 31, 51),
    ("ResNet-18", 64, 1): (11, 31),
    ("ResNet-18", 128, 1): (11,),
    ("ResNet-18", 16, 2): (21, 31, 91, 111),
    ("ResNet-18", 32, 2): (11, 21, 41),
    ("ResNet-18", 64, 2): (21, 41),
    ("ResNet-18", 128, 2): (41,),
    ("ResNet-18", 16, 4): (11, 21, 81, 91),
    ("ResNet-18", 32, 4): (21, 31, 61),
    ("ResNet-18", 64, 4): (11, 61),
    ("ResNet-18", 128, 4): (11,),
    ("ResNet-50", 64, 1): (101,),
    ("ResNet-50", 32, 2): (101, 111),
    ("ResNet-50", 64, 2): (81,),
    ("ResNet-50", 32, 4): (131, 221),
    ("ResNet-50", 64, 4): (191,),
    ("LM", 5, 1): (31, 41, 61, 71),
    ("LM", 10, 1): (11, 21, 41),
    ("LM", 20, 1): (11, 41),
    ("LM", 40, 1): (11,),
    ("LM", 5, 2): (31, 51, 61, 71),
    ("LM", 10, 2): (11, 31, 41),
    ("LM", 20, 2): (31, 41),
    ("LM", 40, 2): (11,),
    ("LM", 5, 4): (11, 31, 71, 91),
    ("LM", 10, 4): (11, 31, 61),
    ("LM", 20, 4): (11, 61),
    ("LM", 40, 4): (61,),
    ("Recommendation", 512, 1): (21, 41, 71, 91),
    ("Recommendation", 1_024, 1): (21, 51, 91),
    ("Recommendation", 2_048, 1): (21, 41),
    ("Recommendation", 4_096, 1): (41,),
}
"""(model, first batch size, GPUs) -> epochs from which on the batch is twice as large again."""
ROUND_S = 120
OVERTIME = 1.5
"""A job that trains so many times as long as foreseen is taken to be done."""
CRITICAL = {"ResNet-18": ((0, 10), (150, 160), (250, 260)), "LM": ((0, 10),)}
FORESEEN_MORE = ((60, 70), (80, 90))
"""Critical epochs of recommendation jobs that only the forecast knows."""
HEAD_PART = 0.3
"""The forecast takes the first part of all epochs for critical."""


class Stage(Struct, frozen=True):
    """A stretch of training with one batch size."""

    batch_size: int
    seconds: float
    """On the machines that the stages were worked out for."""
    left_s: float = 0.0
    """Time left at its beginning if the batch size stayed as it is."""


def batch_at(mode: str, model: str, first: int, gpus: int, epoch: int) -> int:
    """The batch size that the job would choose in this epoch."""
    if mode == "gns":
        doubled = sum(epoch >= start for start in DOUBLINGS.get((model, first, gpus), ()))
        return min(first << doubled, LARGEST.get(model, first))
    if mode == "accordion" and model != STEADY and model in LARGEST and not is_critical(model, first, epoch):
        return LARGEST[model]
    return first


def is_critical(model: str, first: int, epoch: int) -> bool:
    """True in the epochs in which accordion keeps the first batch size."""
    if model == "ResNet-50":
        return epoch % 30 < 10
    regimes = CRITICAL.get(model, ())
    if model == "Recommendation":
        regimes = ((0, {512: 30, 1_024: 30, 2_048: 40}.get(first, 10)),)
    if model == "ResNet-18" and first == LARGEST[model]:
        regimes = ((0, 20), *regimes[1:])
    return any(begin <= epoch < end for begin, end in regimes)


def stages(
    mode: str, model: str, first: int, *, gpus: int, steps: int, speed: Callable[[int], float]
) -> tuple[Stage, ...]:
    """The job's training alone, round by round; `speed` gives steps per second by batch size, 0 where unknown."""
    samples = DATASET.get(model)
    if not mode or samples is None or speed(first) <= 0:
        alone_s = steps / speed(first) if speed(first) > 0 else 0.0
        return (Stage(first, alone_s, alone_s),) if alone_s else ()
    limit_s = int(OVERTIME * foreseen_s(mode, model, first, gpus=gpus, steps=steps, speed=speed))
    found: list[Stage] = []
    total, done, batch, wanted, ran = steps, 0, first, first, 0.0
    while done < total and ran <= limit_s:
        taken = min(int(speed(batch) * ROUND_S), total - done)
        seconds = max(taken, 1) / speed(batch)
        found.append(Stage(batch, seconds, (total - done) / speed(batch)))
        done, ran = done + max(taken, 1), ran + seconds
        if wanted != batch:
            total, done = _scaled(samples, total, done, before=batch, after=wanted)
            batch = wanted
        epoch = ceil(done / ceil(samples / batch))
        wanted = _wanted(mode, model, first, gpus=gpus, epoch=epoch, batch=batch, speed=speed)
    return _joined(found)


def foreseen_s(mode: str, model: str, first: int, *, gpus: int, steps: int, speed: Callable[[int], float]) -> float:
    """Training time alone if every epoch had the batch size that is foreseen for it."""
    samples = DATASET.get(model)
    if samples is None:
        return steps / speed(first)
    epochs = ceil(steps / ceil(samples / first))
    total = 0.0
    for epoch in range(epochs):
        batch = batch_at(mode, model, first, gpus, epoch)
        if mode == "accordion":
            is_more = model == "Recommendation" and any(begin <= epoch < end for begin, end in FORESEEN_MORE)
            batch = first if is_more or epoch <= epochs * HEAD_PART else batch
        rate = speed(batch) or speed(first)
        total += samples / batch / rate
    return total


def _wanted(
    mode: str, model: str, first: int, *, gpus: int, epoch: int, batch: int, speed: Callable[[int], float]
) -> int:
    """The batch size after the next round."""
    if first == LARGEST.get(model):
        return batch
    if mode == "gns":
        ahead = max(batch_at(mode, model, first, gpus, epoch), batch_at(mode, model, first, gpus, epoch + 1))
        wanted = 2 * batch if ahead > batch else batch
    else:
        wanted = batch_at(mode, model, first, gpus, epoch)
    return wanted if speed(wanted) > 0 else batch


def _scaled(samples: int, total: int, done: int, *, before: int, after: int) -> tuple[int, int]:
    """Steps in all and done, after a change of the batch size that keeps the epochs; a begun epoch counts as done."""
    old, new = ceil(samples / before), ceil(samples / after)
    epochs = ceil(total / old)
    scaled = ceil(total * before / after)
    if ceil(scaled / new) != epochs:
        scaled = new * epochs
    return scaled, ceil(done / old) * new


def _joined(found: list[Stage]) -> tuple[Stage, ...]:
    joined: list[Stage] = []
    for stage in found:
        if joined and joined[-1].batch_size == stage.batch_size:
            joined[-1] = replace(joined[-1], seconds=joined[-1].seconds + stage.seconds)
        else:
            joined.append(stage)
    return tuple(joined)
