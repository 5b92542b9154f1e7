"""Searching the administrator's formula and policy settings on one's own history, and saying what they are worth.

What is searched stands in `tuning_space`. The first two thirds of the history (by time) train, the last third is held
out. Every trial is a simulation of the training part under a policy, the present one among them; the best is run once
on the held-out part beside the present one, and the difference carries a bootstrap interval over jobs. Nothing is
applied: the answer is a page.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Policy
from gangline_core.counted import counted
from gangline_core.settings.document import Document
from gangline_lab.metrics import slowdown
from gangline_lab.readers.archives import History
from gangline_lab.side_by_side import Together, side_by_side
from gangline_lab.sim.collect import JobRecord
from gangline_lab.sim.engine import Progress, simulate
from gangline_lab.tuning_space import Space, space_of
from gangline_lab.whatif import Change, scenario_of
from gangline_wire.policyfile_show import show_policy

TRAINING_PART = 2 / 3
RESAMPLES = 2_000
SEED = 7
CROWD = 2
"""Trials of a generation for each number that is searched."""
LAST_RUNS = 3
"""Runs after the search: the present policy on both parts, and the best one on what was held out."""


class Goal(Struct, frozen=True):
    """What is to become small: a number of each job, and how jobs' numbers become one."""

    value: Callable[[JobRecord], float]
    total: Callable[[Sequence[float]], float]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _p99(values: Sequence[float]) -> float:
    return float(np.percentile(values, 99, method="higher")) if len(values) else 0.0


def _wait_s(job: JobRecord) -> float:
    return job.waited_ms / 1000


def _jct_s(job: JobRecord) -> float:
    return job.jct_ms / 1000


GOALS: dict[str, Goal] = {
    "mean_wait": Goal(_wait_s, _mean),
    "p99_wait": Goal(_wait_s, _p99),
    "mean_jct": Goal(_jct_s, _mean),
    "p99_jct": Goal(_jct_s, _p99),
    "mean_slowdown": Goal(slowdown, _mean),
}
"""Name of a goal -> what it is. Times in seconds."""


class TuneError(Exception):
    """The history is too short to learn from it."""


class Tuned(Struct, frozen=True):
    """What the search found."""

    pool: str
    goal: str
    before: str
    """The present formula and ordering."""
    formula: str
    trials: int
    trained_before: float
    trained_after: float
    held_out_before: float
    held_out_after: float
    change_low: float
    """95 % bootstrap interval of the change on the held-out part (after less before)."""
    change_high: float
    jobs_trained: int
    jobs_held_out: int
    settings: dict[str, tuple[int, int]] = {}
    """Settings of the policy that change: before and after."""
    policy: Policy = Policy()
    """The pool's policy as it would be: what the history's last one had, with these changes."""
    is_none: bool = False
    """Nothing that was tried is better on the training part: the policy is the present one."""

    @property
    def is_better(self) -> bool:
        """True when the whole interval lies below 0."""
        return self.change_high < 0


def tune(
    history: History,
    goal: str,
    *,
    pool: str = "default",
    trials: int = 40,
    workers: int = 1,
    progress: Progress | None = None,
) -> Tuned:
    """Search for `trials` simulations, about, `workers` of them at once.

    Raises:
        TuneError: one of the two parts has no jobs.
    """
    training, held_out = halves(history)
    wanted = GOALS[goal]
    present = history.policies[pool]
    space = space_of(present)
    with side_by_side(_tried, (training, held_out, pool, wanted.value), workers=min(workers, trials)) as together:
        search = _Search(together, wanted, space, trials, progress)
        point, trained_after = _least(search.trials, space, trials)
        best = space.policy(point)
        on_training, own_before = search.run([(False, present), (True, present)])
        trained_before = wanted.total(on_training)
        if is_none := trained_after >= trained_before:
            # Of equals the present one stays: it may be of another ordering than all that was tried.
            best, trained_after = present, trained_before
        own_after = own_before if is_none else search.run([(True, best)])[0]
    low, high = bootstrap(own_before, own_after, wanted.total)
    return Tuned(
        pool=pool,
        goal=goal,
        before=present.formula if present.ordering == "weighted" else present.ordering,
        formula=best.formula if best.ordering == "weighted" else best.ordering,
        trials=search.tried,
        trained_before=trained_before,
        trained_after=trained_after,
        held_out_before=wanted.total(own_before),
        held_out_after=wanted.total(own_after),
        change_low=low,
        change_high=high,
        jobs_trained=len(training.trace.arrivals),
        jobs_held_out=len(held_out.trace.arrivals),
        settings={} if is_none else space.changed(best),
        policy=best,
        is_none=is_none,
    )


Parts = tuple[History, History, str, Callable[[JobRecord], float]]
"""What trains, what is held out, the pool, and the number of each job."""
Trial = tuple[bool, Policy]
"""Whether on the held-out part, and under which policy."""


def _tried(parts: Parts, trial: Trial, progress: Progress | None) -> list[float]:
    """The numbers of all jobs that ended."""
    (training, held_out, pool, value), (is_held_out, policy) = parts, trial
    part = held_out if is_held_out else training
    result = simulate(scenario_of(part, Change(policies={pool: policy}), part.trace), progress=progress)
    return [value(job) for job in result.jobs if job.ended_ms >= 0]


class _Search:
    """A search under way: a generation of trials at once, each policy once."""

    def __init__(
        self,
        together: Together[Trial, list[float]],
        wanted: Goal,
        space: Space,
        trials: int,
        progress: Progress | None,
    ) -> None:
        self.tried = 0
        self._together = together
        self._wanted = wanted
        self._space = space
        self._runs = max(trials, CROWD * space.size) + LAST_RUNS
        self._run = 0
        self._progress = progress
        self._known: dict[tuple[str, tuple[int, ...]], float] = {}

    def trials(self, points: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """What the goal comes to at each of these points, one a column."""
        policies = [self._space.policy([float(part) for part in point]) for point in points.T]
        self.tried += len(policies)
        asked = {self._key(policy): policy for policy in policies}
        new = [key for key in asked if key not in self._known]
        found = self.run([(False, asked[key]) for key in new], stands_for=len(policies))
        self._known |= {key: self._wanted.total(values) for key, values in zip(new, found, strict=True)}
        return np.array([self._known[self._key(policy)] for policy in policies])

    def run(self, trials: list[Trial], *, stands_for: int = 0) -> list[list[float]]:
        """Simulate these; they count as so many of the runs that were announced."""
        before, count = self._run, stands_for or len(trials)
        self._run += count

        def tell(done: int, total: int) -> None:
            if self._progress is not None:
                self._progress(before * total + count * done, self._runs * total)

        return self._together(trials, tell)

    def _key(self, policy: Policy) -> tuple[str, tuple[int, ...]]:
        return policy.formula, tuple(getattr(policy, name) for name, _ in self._space.settings)


def _least(
    trials: "Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]", space: Space, count: int
) -> tuple[list[float], float]:
    """The point of the space at which the trials give the least that was found, and what they give there."""
    from scipy.optimize import differential_evolution  # type: ignore[import-untyped]  # SciPy ships no types

    found = differential_evolution(
        trials,
        bounds=[(0.0, 1.0)] * space.size,
        popsize=CROWD,
        maxiter=max(0, count // (CROWD * space.size) - 1),
        seed=SEED,
        polish=False,
        tol=0,
        x0=space.start(),
        updating="deferred",
        vectorized=True,
    )
    return [float(part) for part in found.x], float(found.fun)


def halves(history: History) -> tuple[History, History]:
    """The training part and the held-out part; what happened before the latter is its beginning.

    Raises:
        TuneError: one of them has no jobs.
    """
    arrivals = history.trace.arrivals
    span = arrivals[-1].at_ms if arrivals else 0
    border = round(span * TRAINING_PART)
    first = tuple(one for one in arrivals if one.at_ms <= border)
    second = tuple(replace(one, at_ms=one.at_ms - border) for one in arrivals if one.at_ms > border)
    if not first or not second:
        raise TuneError(f"{counted(len(arrivals), 'job')}: too few to train on some and to hold out others")
    later = tuple(replace(told, at_ms=max(0, told.at_ms - border)) for told in history.inputs)
    return (
        replace(history, trace=replace(history.trace, arrivals=first), past=history.past[: len(first)]),
        replace(
            history,
            trace=replace(history.trace, arrivals=second),
            inputs=later,
            past=history.past[len(first) :],
            begin_ms=history.begin_ms + border,
        ),
    )


def bootstrap(
    before: Sequence[float], after: Sequence[float], total: Callable[[Sequence[float]], float]
) -> tuple[float, float]:
    """95 % interval of the change, jobs drawn again and again in pairs; equal inputs give equal intervals."""
    pairs = min(len(before), len(after))
    old, new = np.asarray(before[:pairs]), np.asarray(after[:pairs])
    random = np.random.default_rng(SEED)
    changes = []
    for _ in range(RESAMPLES if pairs else 0):
        drawn = random.integers(0, pairs, pairs)
        changes.append(total(new[drawn]) - total(old[drawn]))  # type: ignore[arg-type]  # an array is a sequence of floats
    if not changes:
        return 0.0, 0.0
    low, high = np.percentile(changes, [2.5, 97.5])
    return float(low), float(high)


def tuned_lines(tuned: Tuned) -> list[str]:
    """The finding, and the page to apply."""
    verdict = "On times that the search did not see this is no certain gain: better leave the policy as it is."
    if tuned.is_better:
        verdict = "The gain holds on times that the search did not see."
    elif tuned.goal.endswith("_wait") and not tuned.held_out_before and not tuned.held_out_after:
        verdict = "In the held-out part nobody waited, so it could show no gain: nothing is known of this change."
    unit = "" if tuned.goal == "mean_slowdown" else " s"
    if tuned.is_none:
        return [
            f"{tuned.goal} over {counted(tuned.trials, 'trial')} on {counted(tuned.jobs_trained, 'job')}: "
            f"{tuned.trained_before:,.2f}{unit} as it is, and nothing that was tried is better.",
            f"Leave the policy as it is: {tuned.before}",
        ]
    return [
        f"{tuned.goal} over {counted(tuned.trials, 'trial')} on "
        f"{counted(tuned.jobs_trained, 'job')}: {tuned.trained_before:,.2f}{unit} as it is, "
        f"{tuned.trained_after:,.2f}{unit} tuned",
        f"Held out, {counted(tuned.jobs_held_out, 'job')}: {tuned.held_out_before:,.2f}{unit} as it is, "
        f"{tuned.held_out_after:,.2f}{unit} tuned; the change is {tuned.change_low:,.2f} to "
        f"{tuned.change_high:,.2f}{unit} (95 %)",
        verdict,
        "",
        f"--- policy of pool {tuned.pool}",
        f"+++ tuned for {tuned.goal}",
        f"- {tuned.before}",
        f"+ {tuned.formula}",
        *(f"- {name}: {before}" for name, (before, _) in tuned.settings.items()),
        *(f"+ {name}: {after}" for name, (_, after) in tuned.settings.items()),
        "",
        "To apply it (nothing was applied):",
        "",
        *page_of(tuned),
    ]


def page_of(tuned: Tuned) -> list[str]:
    """A page that `gangline policy apply` takes; all of the policy is in it, for what it left out would be reset."""
    import yaml

    page = show_policy(Document(policies={tuned.pool: tuned.policy}))
    return str(yaml.safe_dump(page, sort_keys=False, width=1000, allow_unicode=True)).splitlines()
