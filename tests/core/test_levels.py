"""Queue levels: strict or best-effort, moves by rule, and a head of line that loses its place instead of blocking."""

from tests.make import World, group, node, spec

from gangline_core.cluster import LevelRule
from gangline_core.ordering import order
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.wake import next_wake_ms


def strict(**fields) -> dict[str, LevelRule]:
    return {"normal": LevelRule(strict=True, **fields)}


def busy(**policy) -> tuple[World, int, int]:
    """Four of eight GPUs are held; in front waits who needs eight, behind it who needs one."""
    world = World(node()).set_policy(ordering="fifo", starvation_s=0, backfill_depth=1, **policy)
    world.submit_running(spec(gpus=4, time_limit_s=86_400), "n1")
    large = world.submit(gpus=8)
    small = world.wait(1).submit(gpus=1, time_limit_s=60)
    return world, large, small


def test_in_a_best_effort_level_whoever_fits_may_start():
    world, _, small = busy()
    world.round()
    assert world.job(small).tasks


def test_in_a_strict_level_nobody_starts_before_the_one_in_front():
    world, large, small = busy(levels=strict())
    world.round()
    assert not world.job(small).tasks
    reason = world.job(small).reason
    assert reason is not None
    assert reason.code == ReasonCode.BEHIND_HEAD
    assert reason.numbers == {"job": large, "level": "normal"}
    assert f"job {large} in front" in sentence(reason)


def test_other_levels_go_on_beside_a_strict_one():
    world, _, small = busy(levels=strict())
    low = world.submit(gpus=1, level="low", time_limit_s=60)
    world.round()
    assert world.job(low).tasks
    assert not world.job(small).tasks


def test_who_blocks_its_level_for_the_stated_time_loses_its_place_and_not_its_turn():
    world, large, small = busy(levels=strict(head_wait_s=600))
    world.round()
    assert not world.job(small).tasks
    began = world.state.kept.pools["default"].heads["normal"]
    assert began == (large, world.at)
    assert next_wake_ms(world.state, "default", world.at) == world.at + 600_000
    world.wait(599).round()
    assert not world.job(small).tasks, "not a second too early"
    world.wait(1).round()
    assert world.job(small).tasks
    first = world.state.kept.pools["default"].reservations[0]
    assert first.job == large, "it still has its date"


def test_a_new_head_has_its_own_time():
    world, large, small = busy(levels=strict(head_wait_s=600))
    world.round()
    world.wait(300).cancel(large)
    other = world.submit(gpus=8, at=world.at)
    world.round()
    assert world.job(small).tasks, "with the first gone, the next in order starts"
    assert world.state.kept.pools["default"].heads["normal"] == (other, world.at)


def test_who_is_kept_out_by_a_limit_blocks_nobody():
    """Field case: strict order in one queue froze lending to others."""
    world = World(node(), groups=[group("a", limit={"gpu_milli": 1000})])
    world.set_policy(ordering="fifo", levels=strict())
    world.submit_running(spec(gpus=1, group="a"), "n1")
    world.submit(gpus=1, group="a")
    free = world.wait(1).submit(gpus=1)
    world.round()
    assert world.job(free).tasks


def test_a_job_moves_down_with_the_service_it_had():
    rules = {"normal": LevelRule(to="low", after_gpu_s=3_600)}
    world = World(node()).set_policy(ordering="priority", levels=rules)
    had = world.run(world.submit(gpus=1), "n1")
    world.wait(3_600)
    _requeue(world, had)
    fresh = world.submit(gpus=1)
    assert _ids(world) == [fresh, had]


def test_a_job_moves_up_when_it_has_waited_long_enough():
    rules = {"low": LevelRule(to="normal", after_wait_s=600), "normal": LevelRule(to="high", after_wait_s=1_200)}
    world = World(node()).set_policy(ordering="priority", levels=rules, starvation_s=0)
    old = world.submit(gpus=1, level="low")
    assert next_wake_ms(world.state, "default", world.at) == world.at + 600_000
    young = world.wait(599).submit(gpus=1)
    assert _ids(world) == [young, old]
    world.wait(1)
    assert _ids(world) == [old, young], "both are in normal now, and it is older"
    world.wait(600)
    assert _scores(world)[old] == 1_000_000_000, "two moves on: high"


def _requeue(world: World, job: int) -> None:
    from gangline_core import facts as f

    other = world.submit(gpus=1, level="low", priority=-9)
    eviction = f.Eviction(job=job, beneficiary=other, rule="priority")
    world.tell("placement.default", f.RoundDecided(pool="default", round=0, evictions=(eviction,)))
    world.stop_all().cancel(other)


def _ids(world: World) -> list[int]:
    return list(_scores(world))


def _scores(world: World) -> dict[int, int]:
    found = order(world.state, world.state.kept.pools["default"], world.waiting(), world.at)
    return {candidate.job: candidate.score for candidate in found.candidates}
