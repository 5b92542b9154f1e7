"""The dollhouse sees whether the rules are kept: forget one of them, and a short run in which it matters must notice.

What forgets is one function of the core, replaced wherever it is used for the length of a test.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

import gangline_core.door.terms as terms
import gangline_core.fold as fold
import gangline_core.fold.health as fold_health
import gangline_core.fold.jobs as fold_jobs
import gangline_core.fold.killed as fold_killed
import gangline_core.fold.life as fold_life
import gangline_core.fold.tasks as fold_tasks
import gangline_core.making_room.losses as losses
import gangline_core.making_room.yielding as yielding
import gangline_core.placement.search as search
import gangline_core.scoring.first_by_age as first_by_age
from dollhouse.plan import FLEETS, Ask, Event, Plan
from dollhouse.play import play
from dollhouse.policies import POLICIES, SHORT
from gangline_core import facts as f
from gangline_core.cluster import Gpu, Node
from gangline_core.job import LIVE, JobState

WHOLE_NODE = 4_000


def everywhere(patch: pytest.MonkeyPatch, whole: Any, instead: Any) -> None:
    """Whoever imported the function has the other one."""
    for module in list(sys.modules.values()):
        if module.__name__.startswith("gangline_") and getattr(module, whole.__name__, None) is whole:
            patch.setattr(module, whole.__name__, instead)


def drained_nodes_take_work(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Node, "takes_work", property(lambda self: not (self.lost or self.problem or self.quarantine)))


def jobs_do_not_wait_for_others(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, terms.dependency_reason, lambda state, after: None)


def nobody_is_protected(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, losses.is_protected, lambda job, now, against=None: False)
    everywhere(patch, losses.is_sealed, lambda job, now: False)


def nobody_is_left_to_work(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, losses.is_shielded, lambda job, now: False)


def age_counts_everywhere(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, first_by_age.is_part_left, lambda used, layout, policy: True)


def nobody_asks_who_needs_less(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, yielding.passes_above, lambda table, job: 0 if job.spec.checkpoints else None)


def leases_cut_off_whom_they_cut_off_before(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, losses.makes_up_ms, lambda job: 0)


def no_level_is_required(patch: pytest.MonkeyPatch) -> None:
    whole = search._levels

    def levels(gang: Any, manner: Any) -> Iterator[str]:
        yield from whole(gang, manner)
        yield search.ANYWHERE

    patch.setattr(search, "_levels", levels)


def cancelled_jobs_run_on(patch: pytest.MonkeyPatch) -> None:
    whole = fold_jobs.cancel

    def cancel(state: Any, fact: Any, step: Any) -> None:
        job = state.kept.jobs.get(fact.job)
        if job is None or job.state not in LIVE:
            whole(state, fact, step)

    patch.setattr(fold, "cancel", cancel)


def supervisors_are_ended_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold_killed, "KILLED_MAX", 1_000)


def closed_nodes_excuse_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold_health, "excuse", lambda state, node, step: None)


def failure_is_success(patch: pytest.MonkeyPatch) -> None:
    whole = fold_tasks.task_exited

    def task_exited(state: Any, fact: Any, step: Any) -> None:
        whole(state, replace(fact, exit_code=0) if fact.exit_code == 1 else fact, step)

    patch.setattr(fold, "task_exited", task_exited)


def a_time_limit_is_success(patch: pytest.MonkeyPatch) -> None:
    whole = fold_tasks._one_failed

    def one_failed(state: Any, job: Any, task: Any, fact: Any, step: Any) -> Any:
        if fact.cause == f.ExitCause.TIME_LIMIT:
            return fold_tasks._one_succeeded(state, job, step)
        return whole(state, job, task, fact, step)

    patch.setattr(fold_tasks, "_one_failed", one_failed)


def a_loss_costs_a_retry(patch: pytest.MonkeyPatch) -> None:
    whole = fold_life.requeue

    def requeue(state: Any, job_id: Any, reason: Any, step: Any) -> None:
        job = state.kept.jobs[job_id]
        state.put_job(replace(job, retries_used=job.retries_used + 1))
        whole(state, job_id, reason, step)

    everywhere(patch, whole, requeue)


def held_jobs_wait_on(patch: pytest.MonkeyPatch) -> None:
    whole = fold_jobs.hold

    def hold(state: Any, fact: Any, step: Any) -> None:
        job = state.kept.jobs.get(fact.job)
        if job is None or job.state != JobState.WAITING:
            whole(state, fact, step)

    patch.setattr(fold, "hold", hold)


def failed_cards_are_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gpu, "is_failed", property(lambda self: False))
    whole = fold.HANDLERS[f.GpuFailed]

    def gpu_failed(state: Any, fact: Any, step: Any) -> None:
        node = state.kept.nodes.get(fact.node)
        whole(state, fact, step)
        if node is not None:
            state.put_node(node)

    patch.setitem(fold.HANDLERS, f.GpuFailed, gpu_failed)


def jobs_stay_on_failed_cards(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("gangline_core.fold.health.jobs_of_failed_gpu", lambda state, node, gpu, step: None)


def charges_are_one_too_high(patch: pytest.MonkeyPatch) -> None:
    whole = fold.HANDLERS[f.UsageCharged]

    def charged(state: Any, fact: Any, step: Any) -> None:
        whole(state, fact, step)
        if "lab" in state.kept.charged:
            state.kept.charged["lab"] += 1

    patch.setitem(fold.HANDLERS, f.UsageCharged, charged)


def story(*events: tuple[float, str, int, float], asks: dict[float, list[Ask]], seed: int = 1) -> Plan:
    """Jobs that arrive and other things that happen: when, what, number, seconds."""
    arriving = [Event(at_s=at, what="submit", asks=tuple(own)) for at, own in asks.items()]
    happening = [Event(at_s=at, what=what, number=number, seconds=seconds) for at, what, number, seconds in events]
    return Plan(seed=seed, copies=1, events=tuple(sorted((*arriving, *happening), key=lambda event: event.at_s)))


FULL = [Ask(gpu_milli=WHOLE_NODE, run_s=60) for _ in range(3)]
"""All but two GPUs of the houses are taken."""
SAVED = [replace(ask, saves=True) for ask in FULL]
KEPT_FROM_WORK = {
    1.0: [*(Ask(gpu_milli=WHOLE_NODE, run_s=140, priority=2) for _ in range(2)), Ask(gpu_milli=WHOLE_NODE, run_s=60)],
    14.0: [Ask(gpu_milli=WHOLE_NODE, run_s=25, priority=2)],
    65.0: [Ask(gpu_milli=WHOLE_NODE, run_s=5, priority=2)],
}
"""One job is evicted soon, and waits; when it runs again another of higher priority comes."""
SCATTERED = [*(Ask(gpu_milli=3_000, run_s=40) for _ in range(3)), Ask(gpu_milli=2_000, run_s=40)]
"""One GPU is free on each node of four."""

REAPED = Plan(
    seed=0,
    events=(
        Event(at_s=0.5, what="submit", asks=(Ask(run_s=200),)),
        *(Event(at_s=1, what="reap", who=agent, number=7, seconds=12) for agent in FLEETS),
    ),
)
"""One job whose supervisor is ended wherever it goes, each time later than what closes a node."""
REAPED_AND_CLOSED = replace(
    REAPED,
    events=(
        Event(at_s=0.5, what="submit", asks=(Ask(gpu_milli=250, run_s=200),) * 3),
        *(Event(at_s=1, what="reap", who=agent, number=9, seconds=3) for agent in FLEETS),
    ),
)
"""Three of them whose supervisors are ended at once, so that nodes are closed for it."""

RULES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Plan]] = {
    "drained nodes take work": (
        drained_nodes_take_work,
        story(*((1.0, "drain", number, 30.0) for number in range(4)), asks={5.0: [Ask(run_s=5)]}),
    ),
    "jobs do not wait for others": (
        jobs_do_not_wait_for_others,
        story(asks={1.0: [Ask(run_s=30)], 3.0: [Ask(run_s=5, after=True)]}),
    ),
    "nobody is protected": (
        nobody_is_protected,
        story(
            asks={1.0: [replace(ask, protected_s=40) for ask in FULL], 12.0: [Ask(gpu_milli=WHOLE_NODE, priority=2)]}
        ),
    ),
    "nobody is left to work": (nobody_is_left_to_work, story((0.5, "policy", 90, 0.0), asks=KEPT_FROM_WORK)),
    "age counts everywhere": (
        age_counts_everywhere,
        story((0.5, "policy", 90, 0.0), asks={1.0: FULL, 3.0: [Ask(run_s=60) for _ in range(14)]}),
    ),
    "nobody asks who needs less": (
        nobody_asks_who_needs_less,
        story((0.5, "saves", 0, 0.0), asks={1.0: SAVED, 3.0: SAVED}),
    ),
    "leases cut off whom they cut off before": (
        leases_cut_off_whom_they_cut_off_before,
        story(
            (0.5, "ordered", POLICIES.index(SHORT[0]), 0.0),
            asks={1.0: [*FULL, *FULL]},
        ),
    ),
    "no level is required": (
        no_level_is_required,
        story(asks={1.0: SCATTERED, 8.0: [Ask(tasks=2, topology="node", run_s=5)]}),
    ),
    "cancelled jobs run on": (cancelled_jobs_run_on, story((12.0, "cancel", 0, 0.0), asks={1.0: [Ask(run_s=30)]})),
    "failure is success": (failure_is_success, story(asks={1.0: [Ask(run_s=5, code=1)]})),
    "a time limit is success": (a_time_limit_is_success, story(asks={1.0: [Ask(run_s=60, limit_s=15)]})),
    "a loss costs a retry": (
        a_loss_costs_a_retry,
        story(*((12.0, "gpu", number, 30.0) for number in range(14)), asks={1.0: FULL}),
    ),
    "held jobs wait on": (
        held_jobs_wait_on,
        story((15.0, "hold", 3, 0.0), asks={1.0: FULL, 9.0: [Ask(gpu_milli=WHOLE_NODE, run_s=5)]}),
    ),
    "failed cards are used": (
        failed_cards_are_used,
        story(*((2.0, "gpu", number, 30.0) for number in range(14)), asks={12.0: FULL}),
    ),
    "jobs stay on failed cards": (
        jobs_stay_on_failed_cards,
        story(*((12.0, "gpu", number, 30.0) for number in range(14)), asks={1.0: FULL}),
    ),
    "supervisors are ended for ever": (supervisors_are_ended_for_ever, REAPED),
    "closed nodes excuse nobody": (closed_nodes_excuse_nobody, REAPED_AND_CLOSED),
    "charges are one too high": (charges_are_one_too_high, story(asks={1.0: [Ask(run_s=5)]})),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_dollhouse_notices_a_rule_that_is_forgotten(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget, plan = RULES[rule]
    assert play(plan).faults == (), "the run is sound while the rule is kept"
    forget(monkeypatch)
    assert play(plan).faults
