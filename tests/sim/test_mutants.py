"""The dollhouse sees what it is for: take away one fence or one check, and some short run must notice.

A mutant is one function of the production code replaced for the length of a test. The original comes back afterwards.
"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import dollhouse.stored
import gangline_core.cycle
import gangline_core.fold.tasks
import gangline_core.making_room.preemption
import gangline_core.room.holds
import gangline_kit.lane
import gangline_kit.leader
import gangline_recorder.told
from dollhouse.plan import Ask, Event, Plan
from dollhouse.play import play
from gangline_core.facts import RoundDecided
from gangline_core.ids import TaskId
from gangline_core.job import TaskState


def no_expected_sequence(patch: pytest.MonkeyPatch) -> None:
    """An append whose lane went on without its writer is stored all the same."""
    whole = dollhouse.stored.StoredStream.append

    def append(self: Any, subject: str, data: bytes, *, expected_seq: int | None, **rest: Any) -> int:
        return whole(self, subject, data, expected_seq=None, **rest)

    patch.setattr(dollhouse.stored.StoredStream, "append", append)


def no_epoch(patch: pytest.MonkeyPatch) -> None:
    """A new leader writes in the epoch of the old one."""

    async def take(self: gangline_kit.lane.Lane, holder: str) -> None:
        last = await self._bus.last_message("GANGLINE_LOG", self._subject)
        self._last_seq = last[1] if last is not None else 0
        await self._follower.reached(self._last_seq, timeout_s=30)
        self.epoch = 1

    patch.setattr(gangline_kit.lane.Lane, "take", take)


def no_room_check(patch: pytest.MonkeyPatch) -> None:
    """Nobody keeps room for whoever waits for victims, and the fold books whatever was decided."""
    patch.setattr("gangline_core.making_room.claims.alive_victims", lambda state, claim: ())
    patch.setattr("gangline_core.fold.jobs.placement_fault", lambda state, placement: None)


def room_comes_back_at_exit(patch: pytest.MonkeyPatch) -> None:
    """A task that exited holds nothing, although something of it may be left."""
    whole = gangline_core.fold.tasks.task_exited

    def task_exited(state: Any, fact: Any, step: Any) -> None:
        whole(state, fact, step)
        if fact.task in state.kept.tasks and state.kept.tasks[fact.task].state == TaskState.EXITED:
            gangline_core.fold.tasks.tasks_empty(state, (fact.task,), step)

    patch.setattr("gangline_core.fold.task_exited", task_exited)


def nobody_waits_for_quota(patch: pytest.MonkeyPatch) -> None:
    """A claim waits only for victims where its job will go, not for those that hold its group's quota."""

    def waited_for(self: object, job: object, plan: gangline_core.making_room.preemption.Plan) -> tuple[TaskId, ...]:
        nodes = {place.node for place in plan.found.seats.tasks}
        return tuple(sorted({task.id for loss in plan.losses for task in loss.tasks if task.node in nodes}))

    patch.setattr(gangline_core.making_room.preemption.Preemptor, "_waited_for", waited_for)


def an_ending_job_grows_on(patch: pytest.MonkeyPatch) -> None:
    """Members that ended well are replaced by new ones."""
    whole = gangline_core.fold.tasks._one_succeeded

    def one_succeeded(state: Any, job: Any, step: Any) -> None:
        whole(state, job, step)
        state.kept.jobs[job.id] = replace(state.kept.jobs[job.id], winding_down=False)

    patch.setattr(gangline_core.fold.tasks, "_one_succeeded", one_succeeded)


def decisions_depend_on_the_moment(patch: pytest.MonkeyPatch) -> None:
    """A decision knows more than state and time: how often it was asked."""
    whole, asked = gangline_core.cycle.decide_round, [0]

    def decide_round(state: Any, pool: str, now: int) -> RoundDecided:
        asked[0] += 1
        return replace(whole(state, pool, now), unplaced=asked[0])

    patch.setattr(gangline_core.cycle, "decide_round", decide_round)


def nothing_is_told_late(patch: pytest.MonkeyPatch) -> None:
    """A recorder that died between archive and feed does not look what the feed lacks."""
    patch.setattr(gangline_recorder.told.Told, "lacks", lambda self, event: False)


def the_agent_stays_when_cut_off(patch: pytest.MonkeyPatch) -> None:
    """An agent without the bus, and supervisors without their agent, let their tasks run on."""
    patch.setattr("gangline_agent.app._stop_all", lambda runner, *, away_s: None)
    patch.setattr("dollhouse.machines.Machines.watch", _never)


def a_key_counts_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """Whoever repeats a submit with its key is answered as if it were another one."""
    patch.setattr("gangline_core.fold._remember_submit", lambda state, submit_id, jobs: None)


async def _never(self: object) -> None:
    return None


CUT_OFF = Plan(
    seed=0,
    events=(
        Event(at_s=1, what="submit", asks=(Ask(run_s=120),) * 7),
        Event(at_s=5, what="swallow", who="west", seconds=80),
    ),
)
"""Nodes cut off but alive for longer than they may be; there is room for their jobs elsewhere."""
QUOTA = Plan(
    seed=0,
    events=(
        Event(at_s=1, what="limit", number=12),
        Event(at_s=5, what="submit", asks=(Ask(tasks=2, run_s=100, stop_s=10, service_class="opportunistic"),)),
        Event(at_s=10, what="submit", asks=(Ask(gpu_milli=4000, priority=1),)),
    ),
)
"""Room enough for both, but not within their group's limit."""
ENDING = Plan(
    seed=0,
    events=(
        Event(at_s=1, what="submit", asks=(Ask(gpu_milli=4000, tasks=2, least=1, most=4, run_s=20),)),
        Event(at_s=1, what="submit", asks=(Ask(gpu_milli=2000, run_s=3), Ask(gpu_milli=4000, run_s=10))),
        *(Event(at_s=20 + n, what="submit", asks=(Ask(gpu_milli=250, run_s=1),)) for n in range(12)),
    ),
)
"""An elastic job whose members begin, and so end, at different times, while something goes on outside."""
RIVALS = Plan(
    seed=0,
    events=(
        *(Event(at_s=1 + n / 2, what="submit", asks=(Ask(run_s=5),)) for n in range(40)),
        *(
            Event(at_s=3 + 3 * n, what="freeze_leader", who=kind, seconds=6)
            for n, kind in enumerate(("queue", "placement", "admission", "accounting"))
        ),
        *(Event(at_s=2 + 2 * n, what="two_leaders", who="placement", number=3) for n in range(5)),
    ),
)
"""Old leaders who do not know that they are."""
EVICTING = Plan(
    seed=0,
    events=(
        Event(at_s=1, what="submit", asks=(Ask(run_s=100, stop_s=10, stuck_s=10, service_class="opportunistic"),) * 14),
        Event(at_s=10, what="submit", asks=(Ask(gpu_milli=4000, priority=2), Ask(gpu_milli=4000, priority=1))),
        Event(at_s=12, what="submit", asks=(Ask(gpu_milli=2000, priority=2),) * 4),
    ),
)
"""A full cluster in which victims take their time."""
DIES_UNTOLD = tuple(
    Plan(
        seed=k,
        events=(
            *(Event(at_s=1 + n / 5, what="submit", asks=(Ask(run_s=1),)) for n in range(30)),
            *(Event(at_s=2 + 2 * n, what="crash_at", who="recorder", number=3 * n + k) for n in range(3)),
        ),
    )
    for k in range(8)
)
"""Recorders that die anywhere."""

REPEATED = Plan(
    seed=0,
    doors=2,
    events=(
        *(Event(at_s=1 + n, what="submit", number=2, asks=(Ask(run_s=2),)) for n in range(4)),
        Event(at_s=9, what="again", number=1),
    ),
)
"""Submits over HTTP that are repeated, at once and later."""

MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], tuple[Plan, ...]]] = {
    "no expected sequence": (no_expected_sequence, (RIVALS,)),
    "no epoch": (no_epoch, (RIVALS,)),
    "no room check": (no_room_check, (EVICTING,)),
    "room comes back at exit": (room_comes_back_at_exit, (EVICTING,)),
    "nobody waits for quota": (nobody_waits_for_quota, (QUOTA,)),
    "an ending job grows on": (an_ending_job_grows_on, (ENDING,)),
    "decisions depend on the moment": (decisions_depend_on_the_moment, (QUOTA,)),
    "nothing is told late": (nothing_is_told_late, DIES_UNTOLD),
    "the agent stays when cut off": (the_agent_stays_when_cut_off, (CUT_OFF,)),
    "a key counts for nothing": (a_key_counts_for_nothing, (REPEATED,)),
}


@pytest.fixture(params=MUTANTS)
def mutant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, ...]:
    """The production code with one thing taken away, and the runs that should notice."""
    damage, plans = MUTANTS[request.param]
    damage(monkeypatch)
    return plans


def test_the_dollhouse_notices_what_is_taken_away(mutant: tuple[Plan, ...]) -> None:
    assert any(play(plan).faults for plan in mutant)


@pytest.mark.parametrize(
    "plan", [CUT_OFF, QUOTA, RIVALS, EVICTING, REPEATED, DIES_UNTOLD[0], DIES_UNTOLD[5]], ids=lambda plan: plan.seed
)
def test_a_run_that_notices_mutants_is_sound_without_them(plan: Plan) -> None:
    assert play(plan).faults == ()
