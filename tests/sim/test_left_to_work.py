"""The dollhouse knows what a job was kept from: runs that were cut off, but not those after which it goes on."""

from msgspec.structs import replace
from tests.make import World, node, spec

from dollhouse.left_to_work import LeftToWork
from dollhouse.play import play
from dollhouse.wider import draw_plan
from gangline_core.facts import RoundDecided
from gangline_core.fold import apply
from gangline_core.job import JobState
from gangline_core.making_room.losses import BY_PRIORITY
from gangline_core.scoring.yield_queue import BY_YIELD
from gangline_core.state import State


def evicted_twice() -> World:
    """A job runs for 110 s until one that had less takes its room, and then makes way for an urgent one."""
    world = World(node("n1")).set_policy(yield_after_gpu_s=800, yield_run_s=60, yield_wait_s=300, starvation_s=60)
    long = world.submit(spec("long", gpus=8, checkpoints=True))
    world.settle()
    less = world.wait(110).submit(spec("less", gpus=8, checkpoints=True))
    world.settle()
    assert world.job(long).state == JobState.WAITING
    world.wait(5).finish(less)
    world.settle()
    assert world.job(long).state == JobState.RUNNING
    assert world.job(long).cut_off_ms == 0
    world.wait(5).submit(spec("urgent", gpus=8, priority=50))
    decided = world.round()
    assert [(one.job, one.rule) for one in decided.evictions] == [(long, BY_PRIORITY)]
    return world


def seen(world: World, first_rule: str) -> list[str]:
    """What is wrong with the world's log, where evictions that yield go by this rule."""
    looks, state, faults = LeftToWork(), State(), list[str]()
    for message in world.log:
        facts = tuple(
            replace(
                fact,
                evictions=tuple(
                    replace(one, rule=first_rule) if one.rule == BY_YIELD else one for one in fact.evictions
                ),
            )
            if isinstance(fact, RoundDecided)
            else fact
            for fact in message.facts
        )
        changed = replace(message, facts=facts)
        before = dict(state.kept.jobs)
        step = apply(state, changed)
        faults += looks.faults(state, changed, step, before)
    return faults


def test_who_made_way_and_goes_on_where_it_stopped_was_not_kept_from_that_work() -> None:
    assert seen(evicted_twice(), BY_YIELD) == []


def test_a_run_that_anything_else_cut_off_was_in_vain() -> None:
    [fault] = seen(evicted_twice(), BY_PRIORITY)
    assert "goes by priority, and was kept from its work for 115000 ms" in fault


def test_a_run_in_which_jobs_make_way_and_go_on_holds() -> None:
    """Seed 970065: a job that had made way once was sent away by priority."""
    assert not play(draw_plan(970_065)).faults
