"""Reports about sizes once more in other shapes, and random scenes of jobs of every kind that change theirs."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Drive
from tests.cases.test_elastic import size
from tests.make import gpu_amount, group, node, role

from gangline_core import facts as f
from gangline_core.job import ENDS, JobState
from gangline_core.spec import Elastic, ResizeKind

KINDS = list(ResizeKind)


def hand(drive: Drive, ask: Any, wanted: int, name: str = "worker") -> None:
    """Somebody asks for a size by hand."""
    drive.tell("admission", f.ResizeAsked(job=ask.id, role=name, size=wanted, by="ada"))


# --- J04: members that ended, and a size below their number -----------------------------------------------------------


@pytest.mark.parametrize("how", ["cancel", "evict", "lose", "more"])
@pytest.mark.parametrize(("ended", "wanted"), [(1, 1), (3, 2), (5, 1)])
def test_however_many_members_ended_a_size_by_hand_never_wedges_the_job(how: str, ended: int, wanted: int) -> None:
    drive = Drive(node("n1", gpus=6), node("n2", gpus=2), groups=[group("q"), group("r")])
    ask = drive.ask(0, tasks=6, minimum=1, maximum=6, gpus=1, group="q", stop=2)
    drive.until(1)
    for task in drive.tasks(ask.id)[6 - ended :]:
        drive.tell(
            "agent.sim",
            f.TaskExited(task=task.id, cause=f.ExitCause.EXITED, exit_code=0),
            f.GpusEmpty(tasks=(task.id,)),
        )
    hand(drive, ask, wanted)
    drive.until(10)
    match how:
        case "cancel":
            drive.drop(ask)
        case "evict":
            drive.ask(11, gpus=6, group="r", priority=10, run=5)
        case "lose":
            drive.lose("n1")
        case "more":
            hand(drive, ask, 6)
    drive.until(60)
    if how != "cancel":
        drive.drop(ask)
    drive.finish_all()
    assert drive.job(ask.id).state == JobState.CANCELLED
    assert (drive.used("q"), drive.state.kept.claims) == (0, {})


# --- J07: lists and gaps between sizes --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("wanted", "becomes"), [(3, 2), (7, 6), (100, 6), (5, 2)])
def test_a_proposal_between_allowed_sizes_gives_the_next_smaller_one(
    kind: ResizeKind, wanted: int, becomes: int
) -> None:
    drive = Drive(node(), policy={"elastic_growth": False})
    ask = drive.ask(0, tasks=2, minimum=2, maximum=6, sizes=[2, 6], gpus=1, elastic=Elastic(kind=kind))
    drive.until(1)
    drive.invented.add("elastic")
    drive.tell("elastic.default", f.ResizeProposed(pool="default", job=ask.id, role="worker", size=wanted))
    drive.until(5)
    assert (size(drive, ask), drive.is_running(ask)) == (becomes, [True])
    drive.finish_all()


# --- J08: members that start, for a job that starts again whole -------------------------------------------------------


@pytest.mark.parametrize("needed", [1, 3, 5])
def test_a_gang_that_starts_again_larger_gives_room_before_it_worked_and_none_of_what_it_keeps(needed: int) -> None:
    drive = Drive(node())
    first = drive.ask(0, gpus=6, run=10)
    ask = drive.ask(1, tasks=2, minimum=2, maximum=8, gpus=1, elastic=Elastic(kind=ResizeKind.RESTART, cost_s=1))
    drive.until(5)
    ask.start = 180
    drive.until(12)
    hand(drive, ask, 8)
    drive.until(20)
    assert first.ended == 10
    other = drive.ask(30, gpus=needed)
    drive.until(400)
    assert drive.is_running(ask, other) == [True, True]
    assert 2 <= size(drive, ask) <= 8 - needed
    assert not drive.evicted


# --- J02, J11: crashes and losses around a change ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("second", range(20, 32, 2))
def test_a_crash_at_any_second_of_a_change_loses_neither_size_nor_room(kind: ResizeKind, second: int) -> None:
    elastic = Elastic(kind=kind, notice_s=4, confirm_s=0)
    drive = Drive(node("n1"), groups=[group("q", limit=gpu_amount(6))], policy={"elastic_growth": False})
    ask = drive.ask(0, tasks=4, minimum=1, maximum=8, gpus=1, group="q", elastic=elastic, start=3, stop=3)
    drive.until(19)
    hand(drive, ask, 6)
    drive.later(24, lambda: hand(drive, ask, 2))
    drive.later(second, drive.restart)
    drive.later(28, lambda: hand(drive, ask, 8))
    drive.until(120)
    assert (size(drive, ask), drive.used("q")) == (6, 6), "the limit, and not one more"
    assert drive.job(ask.id).retries_used == 0
    drive.finish_all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [0, 1, 4, 8])
def test_a_host_that_dies_around_a_growth_is_noticed_and_the_gang_forms_once_more(kind: ResizeKind, after: int) -> None:
    elastic = Elastic(kind=kind, notice_s=2)
    drive = Drive(node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=2), policy={"elastic_growth": False})
    ask = drive.ask(0, tasks=3, minimum=1, maximum=4, gpus=1, elastic=elastic, start=3, stop=2)
    drive.until(10)
    hand(drive, ask, 4)
    [host] = {drive.where(ask)[-1]}
    drive.later(11 + after, lambda: drive.lose(host))
    drive.until(100)
    assert drive.is_running(ask) == [True]
    assert host not in drive.where(ask)
    assert size(drive, ask) == 4, "what was asked for by hand is given again as soon as there is room"
    assert drive.job(ask.id).retries_used == 0


# --- sub-gangs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ResizeKind.TASKS, ResizeKind.TORCHRUN])
def test_of_two_roles_each_keeps_its_own_least_whoever_needs_room(kind: ResizeKind) -> None:
    drive = Drive(node())
    roles = [role("left", tasks=4, minimum=2, maximum=4), role("right", tasks=4, minimum=1, maximum=4)]
    ask = drive.ask(0, roles=roles, elastic=Elastic(kind=kind))
    others = [drive.ask(10 + k, gpus=1) for k in range(7)]
    drive.until(60)
    assert drive.job(ask.id).sizes == {"left": 2, "right": 1}
    assert sum(drive.is_running(*others)) == 5
    drive.drop(others[0])
    drive.until(120)
    assert sum(drive.is_running(*others)) >= 5, "room that came back is for those that wait"


# --- anything, in any order -------------------------------------------------------------------------------------------

SIZES = st.sampled_from([(), (1, 2, 4, 8), (2, 4, 6), (1, 3, 6)])


def drawn(data: st.DataObject, drive: Drive, at: float) -> Any:
    """An elastic job of any kind, with any sizes and any pace."""
    sizes = data.draw(SIZES)
    least, most = (sizes[0], sizes[-1]) if sizes else (1, 8)
    elastic = Elastic(
        kind=data.draw(st.sampled_from(KINDS)),
        notice_s=data.draw(st.integers(0, 5)),
        start_s=data.draw(st.sampled_from([0, 8])),
    )
    return drive.ask(
        at,
        tasks=least,
        minimum=least,
        maximum=most,
        gpus=1,
        group=data.draw(st.sampled_from(["q", "r"])),
        elastic=elastic,
        start=data.draw(st.integers(0, 4)),
        stop=data.draw(st.integers(0, 4)),
        run=data.draw(st.sampled_from([None, 30])),
        **({"sizes": list(sizes)} if sizes else {}),
    )


class Trouble:
    """What happens to the jobs and machines of a scene."""

    def __init__(self, drive: Drive, asks: list[Any]) -> None:
        """Nothing yet."""
        self.drive, self.asks = drive, asks
        self.gone: set[str] = set()

    def happen(self, what: str, number: int, wanted: int) -> None:
        """One thing."""
        drive, ask, name = self.drive, self.asks[number % len(self.asks)], f"n{number % 3}"
        match what:
            case "hand" if drive.job(ask.id).state not in ENDS:
                hand(drive, ask, wanted)
            case "lose" if name not in self.gone and len(self.gone) < 2:
                self.gone.add(name)
                drive.lose(name)
            case "back" if name in self.gone:
                self.gone.discard(name)
                drive.see(node(name, gpus=4))
            case "crash":
                drive.restart()
            case "guest":
                drive.ask(drive.now, gpus=1 + wanted % 4, priority=wanted % 3, run=6)
            case "limit":
                drive.set_group("q", limit=gpu_amount(wanted))

    def end(self) -> None:
        """Everything is there again."""
        for name in sorted(self.gone):
            self.drive.see(node(name, gpus=4))
        self.drive.set_group("q", limit=gpu_amount(9))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_jobs_of_every_kind_come_through_anything_with_allowed_sizes_and_nothing_left_behind(
    data: st.DataObject,
) -> None:
    drive = Drive(*(node(f"n{k}", gpus=4) for k in range(3)), groups=[group("q", limit=gpu_amount(9)), group("r")])
    asks = [drawn(data, drive, k) for k in range(data.draw(st.integers(1, 4)))]
    trouble = Trouble(drive, asks)
    for _ in range(data.draw(st.integers(1, 10))):
        what = data.draw(st.sampled_from(["hand", "lose", "back", "crash", "guest", "limit"]))
        number, wanted = data.draw(st.integers(0, 11)), data.draw(st.integers(1, 8))
        act = partial(trouble.happen, what, number, wanted)
        drive.later(data.draw(st.integers(5, 60)), act)
    drive.until(90)
    trouble.end()
    drive.until(400)
    for ask in asks:
        job = drive.job(ask.id)
        assert job.retries_used == 0
        if job.state == JobState.RUNNING:
            assert job.spec.roles[0].allows(size(drive, ask)), job.sizes
        if job.state not in ENDS:
            drive.drop(ask)
    drive.until(500)
    assert (drive.state.kept.claims, drive.state.kept.tasks) == ({}, {})
    assert all(drive.job(ask.id).state in ENDS for ask in asks)
