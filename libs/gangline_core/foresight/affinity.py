"""On which GPU models do jobs like this one run fastest? The affinity that the system adds to a job by itself.

A job that tells its speed on a model (its attribute `speed_<model>`, 1 where it says nothing) is believed. Of all
others run times are kept by model as jobs end, for the user's own jobs of one name and size (see `history`). One model
is liked more than another when three of four runs there were over sooner than three of four here: single slow or fast
runs say nothing. Who names models in the job is taken at its word, and asks for no affinity.
"""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from statistics import median_high

from msgspec import Struct

from gangline_core.foresight.history import CLASSES_MAX, classes
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState, Task
from gangline_core.spec import JobSpec, starts_again

SPEED_PREFIX = "speed_"
OTHERS, OTHERS_SPEED = "", 1.0
"""In a tier, all models of which a job that tells its speeds says nothing, and how fast it is there."""
ALIKE = 0.9
"""Told speeds that differ by less are one."""
RUNS_KEPT = 16
"""Run times remembered per class and model."""
RUNS_LEAST = 3
"""Fewer runs on a model say nothing of it."""

Tiers = tuple[tuple[str, ...], ...]
"""Models in lower case, the fastest first; those of one tier are alike. Models of no tier come where `OTHERS` is, else
last."""


class Affinities(Struct):
    """What is known, of live jobs and of ended ones; changed by the fold alone."""

    models: dict[JobId, str] = {}
    """The GPU model of each live job whose last start was on one model only."""
    runs: dict[str, dict[str, tuple[int, ...]]] = {}
    """Run times in ms by class and model, oldest first."""
    tiers: dict[str, Tiers] = {}
    """By class, where some models are faster than others."""

    def began(self, job: JobId, tasks: Iterable[Task]) -> None:
        """All members have started; on several models at once their time says nothing of either."""
        models = {task.gpu_model.lower() for task in tasks if task.gpus}
        if len(models) == 1:
            self.models[job] = models.pop()
        else:
            self.models.pop(job, None)

    def ended(self, job: Job, *, is_shared: bool) -> None:
        """A job is over; only a run tells that did the whole work at one size, alone on its GPUs."""
        model = self.models.pop(job.id, "")
        went_on = job.attempt > 1 and starts_again(job.spec)
        resized = any(role.is_elastic for role in job.spec.roles)
        if not model or job.state != JobState.SUCCEEDED or is_shared or went_on or resized:
            return
        name = classes(job.spec)[0]
        known = self.runs.pop(name, {})
        ran_ms = max(0, job.ended_ms - job.started_ms)
        self.runs[name] = {**known, model: (*known.get(model, ())[1 - RUNS_KEPT :], ran_ms)}
        tiers = tiers_of(self.runs[name])
        if len(tiers) > 1:
            self.tiers[name] = tiers
        else:
            self.tiers.pop(name, None)
        while len(self.runs) > CLASSES_MAX:
            oldest = next(iter(self.runs))
            del self.runs[oldest]
            self.tiers.pop(oldest, None)

    def middles(self, spec: JobSpec) -> dict[str, tuple[int, int]]:
        """Per model how many runs of jobs like this one are known, and how long the middle one took in ms."""
        return {model: (len(own), median_high(own)) for model, own in self.runs.get(classes(spec)[0], {}).items()}

    def of(self, spec: JobSpec) -> Tiers:
        """Which models the job likes most; none where it likes all alike."""
        speeds = told_speeds(spec) if spec.attributes else {}
        if speeds:
            tiers = told_tiers(speeds)
            return tiers if len(tiers) > 1 else ()
        return self.tiers.get(classes(spec)[0], ()) if self.tiers else ()


def better_than(known: Affinities, spec: JobSpec, here: str) -> dict[str, float]:
    """Models that the job likes more than the one it is on, fastest first, and by what factor it is faster there."""
    place = {model: tier for tier, models in enumerate(known.of(spec)) for model in models}
    last = place.get(here, place.get(OTHERS, 0))
    models = [
        model for model in sorted(place, key=lambda model: (place[model], model)) if model and place[model] < last
    ]
    if not models:
        return {}
    if speeds := told_speeds(spec):
        own = speeds.get(here, OTHERS_SPEED)
        return {model: speeds[model] / own if own else inf for model in models}
    middles = known.middles(spec)
    return {model: middles[here][1] / max(1, middles[model][1]) for model in models}


def told_speeds(spec: JobSpec) -> dict[str, float]:
    """What the job says of its speed, by model in lower case; only models of which it says something.

    Of a model that it names in several ways, what it says in lower case counts, as for the ordering `gavel`.
    """
    return {
        key.removeprefix(SPEED_PREFIX).lower(): max(0.0, float(said))
        for key, said in sorted(spec.attributes.items())
        if key.startswith(SPEED_PREFIX) and not isinstance(said, str)
    }


def told_tiers(speeds: Mapping[str, float]) -> Tiers:
    """Models by the speeds that a job tells; a speed within a tenth of another is no other."""
    known = {**speeds, OTHERS: OTHERS_SPEED}
    order = sorted(known, key=lambda model: (-known[model], model))
    return _in_tiers(order, lambda model, first: known[model] >= ALIKE * known[first])


def tiers_of(runs: Mapping[str, tuple[int, ...]]) -> Tiers:
    """Models of which there are enough runs, the fastest first."""
    known = {model: sorted(own) for model, own in runs.items() if len(own) >= RUNS_LEAST}
    order = sorted(known, key=lambda model: (median_high(known[model]), model))
    return _in_tiers(order, lambda model, first: known[model][len(known[model]) // 4] <= _most(known[first]))


def _in_tiers(order: Iterable[str], is_alike: Callable[[str, str], bool]) -> Tiers:
    """The models in this order; one that is like the first of a tier belongs to it."""
    tiers: list[list[str]] = []
    for model in order:
        if tiers and is_alike(model, tiers[-1][0]):
            tiers[-1].append(model)
        else:
            tiers.append([model])
    return tuple(tuple(sorted(tier)) for tier in tiers)


def _most(runs: list[int]) -> int:
    """What three of four sorted run times stay within."""
    return runs[(3 * len(runs) + 3) // 4 - 1]
