"""What a round looks at once instead of each time tells the same, and spares the looks."""

import random
from collections import Counter

import pytest
from tests.core.test_capacity import picture, place
from tests.core.test_placement import Place
from tests.make import World, group, node, spec

from gangline_core.facts import TaskPlacement
from gangline_core.job import Job
from gangline_core.limits.quota import Ledger
from gangline_core.making_room import cheap_looks, sent_at_once, trial
from gangline_core.making_room.branches import Branches, way_to
from gangline_core.making_room.cheap_looks import Lowest
from gangline_core.making_room.cheaper import Ground, cheaper
from gangline_core.making_room.losses import EVICT, Loss, effective_priority
from gangline_core.making_room.preemption import Preemptor
from gangline_core.making_room.trial import Trial
from gangline_core.placement import search
from gangline_core.placement.together import Work
from gangline_core.placement.topology import topology
from gangline_core.room.capacity import Ints, Room
from gangline_core.room.holdings import are_free, give_lines, lines_of, take_lines
from gangline_core.spec import ServiceClass
from gangline_core.table import Table

CLASSES = (ServiceClass.OPPORTUNISTIC, ServiceClass.BURSTABLE, ServiceClass.GUARANTEED)


def test_the_least_important_is_who_it_is_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(3)
    world = World(node("n1"))
    names = [world.submit(priority=draw.randint(0, 3), service_class=draw.choice(CLASSES)) for _ in range(12)]
    table, lowest = Table(world.state, "default", world.at), Lowest()
    going = names[:4]
    for _ in range(300):
        if draw.random() < 0.4:
            going = draw.sample(names, draw.randint(0, 3))
        job = table.state.kept.jobs[draw.choice(names)]
        mine = effective_priority(table.pool.pool, job.spec)
        each = any(sent_at_once._ranks_below(table, table.state.kept.jobs[name], mine) for name in going)
        assert lowest.is_below(table, job, going) == each
    looks: list[object] = []
    monkeypatch.setattr(cheap_looks, "effective_priority", lambda *asked: looks.append(asked) or 0)
    for _ in range(5):
        lowest.is_below(table, table.state.kept.jobs[names[0]], names)
    assert len(looks) <= len(names) + 5


def test_gpus_are_not_counted_anew_where_none_were_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(*(node(f"n{k}") for k in range(4)), node("bare", gpus=0))
    one_by_one, at_once = world.state.room("default").copy(), world.state.room("default").copy()
    tasks = [place(name, cpu=1000 * k) for k, name in enumerate(("n0", "n1", "n1", "n3", "bare", "n2"))]
    for task in tasks:
        one_by_one.take(task)
    before = picture(at_once)
    monkeypatch.setattr(Room, "count_whole", lambda _, row: pytest.fail(f"row {row} was counted"))
    take_lines(at_once, lines_of(at_once.layout, tasks))
    assert picture(at_once) == picture(one_by_one)
    give_lines(at_once, lines_of(at_once.layout, tasks))
    assert picture(at_once) == before


def test_seats_are_free_while_their_nodes_have_all_of_them() -> None:
    world = World(node("n1", gpus=0, cpus=4), node("n2", gpus=0, cpus=4))
    room = world.state.room("default").copy()
    seats = [place("n1", cpu=2000), place("n1", cpu=2000), place("n2", cpu=1000)]
    assert are_free(room, seats)
    room.take(place("n2", cpu=3000))
    assert are_free(room, seats)
    room.take(place("n1", cpu=1))
    assert not are_free(room, seats)
    assert not are_free(room, [place("n1", 0, cpu=0)]), "nothing is said of GPUs"
    room.set_places(1, 0)
    assert not are_free(room, [place("n2", cpu=0)])
    scarce = TaskPlacement(role="w", index=0, node=seats[0].node, gpus=(), cpu_milli=0, memory_mib=1 << 40)
    assert not are_free(room, [scarce])


def test_room_that_was_found_is_not_looked_for_again_while_it_is_there() -> None:
    world = World(node("n1", gpus=0, cpus=4), node("n2", gpus=0, cpus=4))
    job = world.job(world.submit(gpus=0, cpus=3))
    table = Table(world.state, "default", world.at)
    preemptor, searched, placer = Preemptor(table), [0], table.seating.placer

    def counted(room, gang):
        searched[0] += 1
        return placer(room, gang)

    table.seating.placer = counted
    assert [preemptor._has_room(job, is_owed=False) for _ in range(3)] == [True] * 3
    assert searched == [1]
    table.room.take(place("n1", cpu=2000))
    assert preemptor._has_room(job, is_owed=False)
    assert searched == [2]
    table.room.take(place("n2", cpu=2000))
    assert [preemptor._has_room(job, is_owed=False) for _ in range(3)] == [False] * 3
    assert searched == [3]


def test_what_one_user_would_lose_is_counted_in_one_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(node("n1", gpus=0, cpus=9), groups=[group("lab", limit={"cpu_milli": 8000})])
    names = [world.submit_running(spec(gpus=0, cpus=1, group="lab", user=user), "n1") for user in "aaaabbbb"]
    job = world.job(world.submit(gpus=0, cpus=2, group="lab", user="c", priority=3))
    table = Table(world.state, "default", world.at)
    jobs = [world.job(name) for name in names]
    losses = [
        Loss(kind=EVICT, job=one, tasks=tuple(world.state.tasks_of(one)), amounts={"cpu_milli": 1000, "jobs": 1})
        for one in jobs
    ]
    changes: Counter[str] = Counter()
    given = Ledger.give

    def give(self: Ledger, whose: Job, amounts: dict[str, int]) -> None:
        changes[whose.spec.user] += 1
        given(self, whose, amounts)

    monkeypatch.setattr(Ledger, "give", give)
    tried = Trial(table, job, table.room.copy(), losses)
    tried._take_out(range(8))
    assert changes == {"a": 1, "b": 1}
    used = [table.ledger.used(holder, "cpu_milli") for holder in ("lab", "lab:a", "lab:b", "")]
    assert used == [0, 0, 0, 0]
    tried._restore(range(8))
    assert [table.ledger.used(holder, "cpu_milli") for holder in ("lab", "lab:a", "lab:b")] == [8000, 4000, 4000]
    plan = Trial(table, job, table.room.copy(), losses).run()
    assert plan is not None
    assert [loss.job.id for loss in plan.losses] == names[:2]


def test_a_gang_for_which_there_are_too_few_seats_is_not_tried_level_by_level(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Place(*(node(f"n{k}", gpus=0, cpus=4, labels={"rack": f"r{k // 2}"}) for k in range(4)))
    assert topology(world.room, world.gang(spec(gpus=0, cpus=2, tasks=8))) is not None
    monkeypatch.setattr(search, "_at_level", lambda *_: pytest.fail("a level was looked at"))
    assert topology(world.room, world.gang(spec(gpus=0, cpus=2, tasks=9))) is None


def test_room_is_not_moved_where_a_limit_refuses_the_job_with_those_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(node("n1", gpus=0, cpus=16), groups=[group("lab", limit={"cpu_milli": 8000})])
    names = [world.submit_running(spec(gpus=0, cpus=1, group="lab"), "n1") for _ in range(8)]
    job = world.job(world.submit(gpus=0, cpus=2, group="lab", priority=3))
    table = Table(world.state, "default", world.at)
    losses = [
        Loss(kind=EVICT, job=one, tasks=tuple(world.state.tasks_of(one)), amounts={"cpu_milli": 1000, "jobs": 1})
        for one in map(world.job, names)
    ]
    moved: list[int] = []

    def noted(room: Room, lines: Ints) -> None:
        moved.append(len(lines))
        take_lines(room, lines)

    monkeypatch.setattr(trial, "take_lines", noted)
    room = table.room.copy()
    before = picture(room)
    plan = Trial(table, job, room, losses).run()
    assert plan is not None
    assert [loss.job.id for loss in plan.losses] == names[:2]
    assert picture(room) == before
    assert table.ledger.used("lab", "cpu_milli") == 8000
    # Two were taken away, since the limit lacks as much, and are back once all is over: nobody was put back in vain.
    assert sum(moved) == 2


def test_of_many_who_could_go_the_first_that_may_do_are_taken_away_or_all() -> None:
    world = World(node("n1", gpus=0, cpus=8), groups=[group("lab", limit={"cpu_milli": 6000})])
    names = [world.submit_running(spec(gpus=0, cpus=1, group="lab" if k % 2 else ""), "n1") for k in range(8)]
    table = Table(world.state, "default", world.at)
    losses = [
        Loss(kind=EVICT, job=one, tasks=tuple(world.state.tasks_of(one)), amounts={"cpu_milli": 1000, "jobs": 1})
        for one in map(world.job, names)
    ]
    least = {3: 2, 4: 4, 5: 6, 6: 8, 7: None}
    for cpus, first in least.items():
        job = world.job(world.submit(gpus=0, cpus=cpus, group="lab", priority=3))
        assert trial.at_least(table, job, losses) == first
        plan = Trial(table, job, table.room.copy(), losses).run()
        # Its limit has enough without `first` of them, and the node without as many as it asks for.
        gone = [] if plan is None else [loss.job.id for loss in plan.losses]
        assert gone == ([] if first is None else sorted(gone))
        assert len(gone) == (0 if first is None else cpus)
        assert table.ledger.used("lab", "cpu_milli") == 4000


def test_no_set_is_tried_where_a_limit_tells_that_none_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(node("n1", gpus=0, cpus=16), groups=[group("lab", limit={"cpu_milli": 10_000})])
    names = [world.submit_running(spec(gpus=0, cpus=1, group="lab"), "n1") for _ in range(10)]
    job = world.job(world.submit(gpus=0, cpus=2, group="lab", priority=3))
    table = Table(world.state, "default", world.at)
    losses = [
        Loss(kind=EVICT, job=one, tasks=tuple(world.state.tasks_of(one)), amounts={"cpu_milli": 1000, "jobs": 1})
        for one in map(world.job, names)
    ]
    plan = Trial(table, job, table.room.copy(), losses).run()
    assert plan is not None
    assert len(plan.losses) == 2
    monkeypatch.setattr(Trial, "helps", lambda *_: pytest.fail("a set was tried"))
    ground = Ground(table.room.copy(), frozenset(), losses, Work(100))
    assert cheaper(table, job, ground, plan, lambda _: True) is None


def _tried(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The jobs of each trial that is run from now on."""
    tried: list[list[int]] = []
    run = Trial.run

    def noted(self: Trial) -> trial.Plan | None:
        tried.append([loss.job.id for loss in self._losses])
        return run(self)

    monkeypatch.setattr(Trial, "run", noted)
    return tried


def test_who_costs_least_is_all_that_is_tried_where_that_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(*(node(f"n{k}", gpus=4) for k in range(4)))
    names = [world.submit_running(spec(gpus=1), f"n{k // 4}") for k in range(16)]
    job, tried = world.job(world.submit(gpus=1, priority=3)), _tried(monkeypatch)
    plan = Preemptor(Table(world.state, "default", world.at)).plan(job)
    assert plan is not None
    assert [loss.job.id for loss in plan.losses] == names[-1:]
    assert tried == [names[-1:]]


def test_where_who_costs_least_is_not_enough_all_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(*(node(f"n{k}", gpus=4) for k in range(4)))
    names = [world.submit_running(spec(gpus=1), f"n{k // 4}") for k in range(16)]
    job, tried = world.job(world.submit(gpus=2, priority=3)), _tried(monkeypatch)
    plan = Preemptor(Table(world.state, "default", world.at)).plan(job)
    assert plan is not None
    assert sorted(loss.job.id for loss in plan.losses) == names[-2:]
    assert tried[0] == names[-1:]
    assert sorted(tried[1]) == names


def test_sums_over_branches_are_those_of_their_parts_when_some_have_changed() -> None:
    draw = random.Random(5)
    paths = [f"{a}/{b}" for a in "abc" for b in "xyz"]
    ledger = Ledger(World(node("n1")).state)
    branches, amounts, asked = Branches(ledger, paths), dict.fromkeys(paths, 1), list[str]()

    def find(_meeting: str, groups: list[str]) -> int:
        asked.extend(groups)
        return sum(amounts[path] for path in groups)

    for _ in range(200):
        moved = draw.choice(paths)
        amounts[moved] = draw.randint(0, 9)
        branches.forget(moved)
        way = draw.choice(paths)
        others = [path for path in paths if path != way]
        assert branches.total(way_to(way, None), "all", find) == sum(amounts[path] for path in others)
    asked.clear()
    branches.total(way_to("a/x", None), "all", find)
    assert len(asked) <= 3 * 3, "only what was not asked since it changed is asked"


def test_without_a_plan_only_sets_that_every_group_can_bear_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(node("n1", gpus=4))
    names = [world.submit_running(spec(gpus=1), "n1") for _ in range(4)]
    job = world.job(world.submit(gpus=2, priority=3))
    table = Table(world.state, "default", world.at)
    losses = [
        Loss(kind=EVICT, job=one, tasks=tuple(world.state.tasks_of(one)), amounts={"gpu_milli": 1000}, lost_ms=1)
        for one in map(world.job, names)
    ]
    tried: list[set[int]] = []
    helps = Trial.helps

    def noted(self: Trial, some: list[Loss]) -> bool:
        tried.append({loss.job.id for loss in some})
        return helps(self, some)

    monkeypatch.setattr(Trial, "helps", noted)
    ground = Ground(table.room.copy(), frozenset(), losses, Work(100))
    stays = names[0]
    plan = cheaper(table, job, ground, None, lambda some: all(loss.job.id != stays for loss in some))
    assert plan is not None
    assert {loss.job.id for loss in plan.losses} == set(names[1:3])
    assert not any(stays in some for some in tried)
