"""Searching the administrator's formula and policy settings on one's own history, and saying what they are worth.

What is searched stands in `tuning_space`. The first two thirds of the history (by time) train, the last third is held
out. Every trial is a simulation of the training part under a policy, the present one among them; the best is run once
on the held-out part beside the present one, and the difference carries a bootstrap interval over jobs. Nothing is
applied: the answer is a page.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Policy
from gangline_core.counted import counted
from gangline_core.settings.document import Document
from gangline_lab.metrics import slowdown
from gangline_lab.readers.archives import History
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
    history: History, goal: str, *, pool: str = "default", trials: int = 40, progress: Progress | None = None
) -> Tuned:
    """Search for `trials` simulations, about.

    Raises:
        TuneError: one of the two parts has no jobs.
    """
    training, held_out = halves(history)
    wanted = GOALS[goal]
    present = history.policies[pool]
    space = space_of(present)
    done = [0]
    known: dict[tuple[str, tuple[int, ...]], float] = {}

    def value(part: History, policy: Policy) -> tuple[float, list[float]]:
        result = simulate(scenario_of(part, Change(policies={pool: policy}), part.trace))
        values = [wanted.value(job) for job in result.jobs if job.ended_ms >= 0]
        return wanted.total(values), values

    def trial(point: Sequence[float]) -> float:
        done[0] += 1
        if progress is not None:
            progress(done[0], trials)
        policy = space.policy([float(part) for part in point])
        key = (policy.formula, tuple(getattr(policy, name) for name, _ in space.settings))
        if key not in known:
            known[key] = value(training, policy)[0]
        return known[key]

    point, trained_after = _least(trial, space, trials)
    best = space.policy(point)
    trained_before, _ = value(training, present)
    if is_none := trained_after >= trained_before:
        # Of equals the present one stays: it may be of another ordering than all that was tried.
        best, trained_after = present, trained_before
    before, own_before = value(held_out, present)
    after, own_after = (before, own_before) if is_none else value(held_out, best)
    low, high = bootstrap(own_before, own_after, wanted.total)
    return Tuned(
        pool=pool,
        goal=goal,
        before=present.formula if present.ordering == "weighted" else present.ordering,
        formula=best.formula if best.ordering == "weighted" else best.ordering,
        trials=done[0],
        trained_before=trained_before,
        trained_after=trained_after,
        held_out_before=before,
        held_out_after=after,
        change_low=low,
        change_high=high,
        jobs_trained=len(training.trace.arrivals),
        jobs_held_out=len(held_out.trace.arrivals),
        settings={} if is_none else space.changed(best),
        policy=best,
        is_none=is_none,
    )


def _least(trial: Callable[[Sequence[float]], float], space: Space, trials: int) -> tuple[list[float], float]:
    """The point of the space at which the trial gives the least that was found, and what it gives there."""
    from scipy.optimize import differential_evolution  # type: ignore[import-untyped]  # SciPy ships no types

    found = differential_evolution(
        trial,
        bounds=[(0.0, 1.0)] * space.size,
        popsize=CROWD,
        maxiter=max(0, trials // (CROWD * space.size) - 1),
        seed=SEED,
        polish=False,
        tol=0,
        x0=space.start(),
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
