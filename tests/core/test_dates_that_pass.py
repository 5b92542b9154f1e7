"""A date below a limit that is over binds nobody: its pool gives a new one, even where nobody of it may start."""

from tests.make import World, gpu_amount, group, node, spec

from gangline_core import cycle
from gangline_core.ids import JobId
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ServiceClass
from gangline_core.wake import next_wake_ms


def two_pools(**running: int) -> tuple[World, JobId]:
    """Of a limit of eight GPUs over two pools four are used, and one that waits for all of it is alone in its pool."""
    world = World(node("n1"), node("p1", pool="other"), groups=[group("lab", limit=gpu_amount(8))])
    for pool in ("default", "other"):
        world.set_policy(pool, ordering="fifo", starvation_s=0, preemption=False)
    world.submit_running(spec(gpus=4, group="lab", **running), "n1")
    dated = world.submit(gpus=8, group="lab")
    world.round()
    return world, dated


def start_ms(world: World) -> int:
    """The one date that now holds."""
    (date,) = world.state.kept.pools["default"].limit_dates
    return date.start_ms


def to_the_date(world: World) -> World:
    """Time passes up to the date, when its pool looks again."""
    assert next_wake_ms(world.state, "default", world.at) == start_ms(world)
    world.wait((start_ms(world) - world.at) / 1000).round()
    return world


def test_a_date_that_is_over_is_given_anew_where_nobody_may_start():
    world, _ = two_pools(time_limit_s=1_000)
    to_the_date(world)
    assert start_ms(world) > world.at
    assert cycle.open_round(world.state, "default", world.at) is None, "and then there is nothing to decide"


def test_who_is_short_passes_in_another_pool_once_the_date_has_moved():
    """Nothing else happens: its pool is told that the date is another one."""
    world, _ = two_pools(time_limit_s=1_000)
    world.wait(980)
    brief = world.submit(gpus=1, group="lab", pool="other", time_limit_s=40)
    world.settle("other")
    assert world.reason(brief) == ReasonCode.LIMIT_KEPT
    to_the_date(world).settle("other")
    assert world.job(brief).tasks


def test_what_is_late_is_taken_to_need_as_long_again():
    """So that whoever waits for it keeps others out ever less often, and ever longer ones pass."""
    world, _ = two_pools(time_limit_s=1_000)
    late_s = []
    for _ in range(4):
        to_the_date(world)
        late_s.append((start_ms(world) - world.at) // 1000)
    assert late_s == [60, 60, 120, 240]


def test_what_ends_before_a_date_that_is_late_is_others_to_have_before_it_has_ended():
    """What the dated job waits for is late, so it has a later date; what else ends until then it leaves."""
    world = World(node("n1"), groups=[group("lab", limit=gpu_amount(4))])
    world.set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=2, group="lab", time_limit_s=100, preemptible=False), ("n1", [0, 1]))
    low = world.submit_running(spec(gpus=2, group="lab", time_limit_s=140, grace_s=0), ("n1", [2, 3]))
    world.wait(101)
    dated = world.submit(gpus=2, group="lab", priority=5, preempts=False)
    world.settle()
    strong = world.submit(gpus=2, group="lab", priority=3)
    world.settle()
    assert world.job(strong).tasks
    assert not world.job(low).tasks
    assert not world.job(dated).tasks


def test_a_date_of_which_nobody_knows_the_end_is_given_anew_after_a_day():
    world, _ = two_pools()
    to_the_date(world)
    assert start_ms(world) == world.at + 86_400_000


def test_the_date_of_who_may_not_start_any_more_is_dropped_when_it_is_over():
    """Nobody below the limit has dates any more."""
    world, _ = two_pools(time_limit_s=1_000)
    world.set_policy("default", backfill_depth=0)
    world.wait(1_001).round()
    assert world.state.kept.pools["default"].limit_dates == ()


def test_a_date_that_rests_on_whose_room_is_being_cleared_does_not_move_with_the_clock():
    """Seed 1600208: it was later in each round, which called for the next one, for ever."""
    world = World(node("n1"), node("p1", pool="other"), groups=[group("lab", limit=gpu_amount(8))])
    for pool in ("default", "other"):
        world.set_policy(pool, ordering="priority", starvation_s=0)
    hangs = world.submit_running(spec(gpus=8, service_class=ServiceClass.OPPORTUNISTIC), "n1")
    heir = world.submit(gpus=8, group="lab", priority=5, estimate_s=600)
    world.settle(stops=False)
    assert [claim.job for claim in world.state.kept.claims.values()] == [heir]
    world.submit(gpus=8, group="lab", estimate_s=600)
    rounds = 0
    while cycle.round_due(world.state, "default"):
        world.wait(0.011).round()
        rounds += 1
        assert rounds < 5
    assert start_ms(world) == world.state.kept.claims[heir].made_ms + 600_000
    assert world.tasks(hangs)
