"""A round looks at some of many alike, and at those of them that end sooner than all of these."""

from tests.make import World, gpu_amount, group, node, spec


def test_who_says_that_it_is_short_passes_a_date_below_a_limit_however_many_alike_stand_before_it():
    world = World(node("n1"), node("n2"), groups=[group("lab", limit=gpu_amount(8))])
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False, candidates_per_shape=2)
    world.submit_running(spec(gpus=4, group="lab", time_limit_s=1_000), "n1")
    world.submit(gpus=8, group="lab")
    world.settle()
    long = [world.submit(gpus=2, group="lab", estimate_s=2_000 + k) for k in range(4)]
    short = world.submit(gpus=2, group="lab", estimate_s=500)
    world.settle()
    assert not any(world.job(job).tasks for job in long)
    assert world.job(short).tasks


def test_whose_like_are_short_passes_a_date_however_many_others_alike_stand_before_it():
    world = World(node("n1"))
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False, candidates_per_shape=2)
    for name, took_s in (("brief", 10), ("slow", 5_000)):
        for _ in range(6):
            done = world.submit_running(spec(name, gpus=2), "n1")
            world.wait(took_s).finish(done)
    world.submit_running(spec(gpus=4, time_limit_s=1_000), "n1")
    world.submit(gpus=8)
    long = [world.submit(gpus=2, name="slow") for _ in range(4)]
    short = [world.submit(gpus=2, name="brief") for _ in range(2)]
    world.settle()
    assert [bool(world.job(job).tasks) for job in (*long, *short)] == [False] * 4 + [True] * 2


def test_without_backfill_nobody_is_looked_at_for_being_short():
    world = World(node("n1"))
    world.set_policy(ordering="fifo", starvation_s=0, backfill=False, candidates_per_shape=2)
    world.submit_running(spec(gpus=8), "n1")
    jobs = [world.submit(gpus=1, estimate_s=1_000 - k) for k in range(5)]
    decided = world.round()
    assert decided is not None
    assert [job for refusal in decided.refusals for job in refusal.jobs] == jobs[:2]
