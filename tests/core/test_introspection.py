"""A trial is judged by step times that are noisy by a fifth: what helps is kept, what does not is taken back."""

import random

import pytest
from tests.core.test_elastic_policies import propose, running
from tests.make import World, node

from gangline_core import facts as f
from gangline_core.sizes.progress import Point, Progress

INTERVAL_S = 60
SAID_MAX = 256
NOISE = 0.2


def middle(values: list[int]) -> int:
    """As telemetry tells it: the mean of the middle half of what was said last."""
    ordered = sorted(values[-SAID_MAX:])
    cut = len(ordered) // 4
    inner = ordered[cut : len(ordered) - cut]
    return sum(inner) // len(inner)


class Noisy:
    """A job of two or three members whose step takes `step_s` with two, and that three make faster by `gain`."""

    def __init__(self, seed: int, step_s: float, gain: float) -> None:
        self.world = World(node()).set_policy(elastic="grow_shrink", elastic_interval_s=INTERVAL_S)
        self.job = running(self.world, size=2, minimum=2, maximum=3)
        self.draw = random.Random(seed)
        self.step_s = {2: step_s, 3: step_s * 3 / (2 * gain)}
        self.said: dict[int, list[int]] = {2: [], 3: []}
        self.left_s = 0.0

    def live(self, seconds: float) -> dict:
        """So much later, all its steps reported; the sizes that are proposed then."""
        size = self.world.job(self.job).sizes["worker"]
        self.left_s += seconds
        while self.left_s >= self.step_s[size]:
            self.left_s -= self.step_s[size]
            self.said[size].append(round(self.step_s[size] * 1e6 * max(0.1, self.draw.gauss(1, NOISE))))
        points = tuple(
            Point(nodes=1, members=members, batch=32, gathered=0, step_us=middle(said))
            for members, said in self.said.items()
            if said
        )
        if points:
            self.world.tell("telemetry", f.ProgressReported(job=self.job, progress=Progress(points=points)))
        return propose(self.world.wait(seconds))

    def sizes_until(self, seconds: float) -> list[int]:
        """Every size that it was given."""
        given = []
        for _ in range(round(seconds / INTERVAL_S)):
            given += self.live(INTERVAL_S).values()
        return given


@pytest.mark.parametrize(("step_s", "until_s"), [(0.2, 900), (5.0, 3600), (60.0, 5400)])
@pytest.mark.parametrize("seed", range(12))
def test_what_helps_by_an_eighth_is_tried_once_and_kept(seed: int, step_s: float, until_s: float) -> None:
    assert Noisy(seed, step_s, 1.125).sizes_until(until_s) == [3]


@pytest.mark.parametrize("seed", range(12))
def test_what_makes_it_slower_by_an_eighth_is_taken_back_and_not_tried_again(seed: int) -> None:
    assert Noisy(seed, 1.0, 1 / 1.125).sizes_until(1800) == [3, 2]


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_tried_from_a_size_that_was_hardly_measured(seed: int) -> None:
    job = Noisy(seed, 5.0, 1.5)
    assert job.sizes_until(600) == []
    assert job.sizes_until(300) == [3]


@pytest.mark.parametrize("seed", range(4))
def test_of_very_long_steps_a_few_are_enough_for_what_helps_much(seed: int) -> None:
    job = Noisy(seed, 600.0, 1.5)
    assert job.sizes_until(4 * 3600) == [3]
