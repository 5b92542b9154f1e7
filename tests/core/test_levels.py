"""Queue levels: strict or best-effort, moves by rule, and a head of line that loses its place instead of blocking."""

from tests.make import World, group, node, spec

from gangline_core.cluster import LevelRule
from gangline_core.facts import NodeLost, NodeSeen
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
    assert world.state.kept.pools["default"].heads == {large: ("normal", world.at)}
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
    assert world.state.kept.pools["default"].heads == {other: ("normal", world.at)}


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


def test_strict_order_holds_among_those_who_want_the_same_machines():
    """Field case: strict order made jobs of an idle kind of machine wait for a full one."""
    world = World(node("x", model="X"), node("y", model="Y"))
    world.set_policy(ordering="fifo", starvation_s=0, levels=strict())
    world.submit_running(spec(gpus=8, gpu_models=["X"]), "x")
    to_x = world.submit(gpus=8, gpu_models=["X"])
    to_y = world.wait(1).submit(gpus=4, gpu_models=["Y"])
    large = world.wait(1).submit(gpus=8, gpu_models=["Y"])
    either = world.wait(1).submit(gpus=1)
    small = world.wait(1).submit(gpus=1, gpu_models=["Y"], time_limit_s=1)
    world.round()
    assert [bool(world.job(one).tasks) for one in (to_x, to_y, large, either, small)] == [False, True] + [False] * 3
    assert world.state.kept.pools["default"].heads.keys() == {to_x, large}
    assert world.job(small).reason.numbers == {"job": to_x, "level": "normal"}, "either waits for both kinds"
    world.cancel(either).round()
    assert world.job(small).reason.numbers == {"job": large, "level": "normal"}


def test_each_head_of_a_level_has_its_own_time():
    world = World(node("x", model="X"), node("y", model="Y"))
    world.set_policy(ordering="fifo", starvation_s=0, levels=strict(head_wait_s=600))
    for name in "xy":
        world.submit_running(spec(gpus=5, gpu_models=[name]), name)
    heads = [world.submit(gpus=8, gpu_models=["X"])]
    world.round()
    heads.append(world.wait(100).submit(gpus=8, gpu_models=["Y"]))
    small = [world.wait(1).submit(gpus=1, gpu_models=[name], time_limit_s=5) for name in "xy"]
    world.round()
    assert not any(world.job(one).tasks for one in small)
    world.wait(498).round()
    assert [bool(world.job(one).tasks) for one in small] == [True, False]
    world.wait(102).round()
    assert all(world.job(one).tasks for one in small)


def test_a_job_that_moved_is_held_to_the_rules_of_the_level_it_moved_to():
    rules = {"high": LevelRule(to="normal", after_wait_s=100), "normal": LevelRule(strict=True)}
    world = World(node()).set_policy(ordering="fifo", starvation_s=0, levels=rules)
    world.submit_running(spec(gpus=4, level="high", time_limit_s=86_400), "n1")
    world.submit(gpus=8, level="high")
    small = world.wait(1).submit(gpus=1, level="high", time_limit_s=60)
    late = world.wait(98).submit(gpus=1, level="normal", time_limit_s=60)
    world.wait(1).round()
    assert (bool(world.job(small).tasks), bool(world.job(late).tasks)) == (True, False)


def test_the_second_move_of_a_waiting_job_is_looked_at_in_time_too():
    rules = {"low": LevelRule(to="normal", after_wait_s=600), "normal": LevelRule(to="high", after_wait_s=1_200)}
    world = World(node()).set_policy(ordering="priority", levels=rules, starvation_s=0)
    world.submit(level="low", gpus=1)
    assert next_wake_ms(world.state, "default", world.at + 600_000) == world.at + 1_200_000


def test_one_that_no_machine_there_could_hold_stands_in_front_of_nobody():
    """The machine that it would need is lost: who comes after it starts on the others."""
    world = World(node("n1"), node("n2", gpus=4)).set_policy(ordering="fifo", starvation_s=0, levels=strict())
    large = world.submit(gpus=8)
    small = world.submit(gpus=1)
    world.tell("telemetry", NodeLost(node="n1", silent_ms=1))
    world.round()
    assert not world.job(large).tasks
    assert world.job(small).tasks
    world.tell("agent.sim", NodeSeen(node=node("n1")))
    world.submit_running(spec(gpus=1, preemptible=False), "n1")
    behind = world.submit(gpus=1)
    world.round()
    assert not world.job(behind).tasks, "the machine is there again, and the large one waits for it"
