"""What was used is charged once, exactly, and budgets end when they are used up."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import SECOND, World, group, node, spec

from gangline_core import facts as f
from gangline_core.limits.accounting import CHARGES_MAX, GPU_HOUR, charge, next_budget_end_ms, spent


def account(world: World) -> tuple[f.Fact, ...]:
    facts = charge(world.state, world.at)
    if facts:
        world.tell("accounting", *facts)
    return facts


def test_an_ended_task_is_charged_once_from_placed_to_seen_empty():
    world = World(node(), groups=[group("a"), group("a/b")])
    job = world.submit_running(spec(gpus=2, group="a/b"), "n1")
    world.wait(100)
    world.exit(*world.job(job).tasks).wait(5)
    task = world.job(job).tasks[0]
    assert account(world) == ()
    world.empty(task)
    (charged,) = account(world)
    assert charged.gpu_milli_ms == 2000 * 105 * SECOND
    assert (charged.group, charged.user, charged.gpu_model, charged.job) == ("a/b", "ada", "A100", job)
    assert account(world) == ()
    for holder in ("a/b:ada", "a/b", "a", ""):
        assert world.state.kept.charged[holder] == 2000 * 105 * SECOND


def test_the_parts_of_a_gang_are_charged_each_for_its_own_time():
    """Q05: three members run 600 s and one 100 s."""
    world = World(node())
    job = world.submit(gpus=1, tasks=4, minimum=1, maximum=4)
    world.run(job, "n1")
    tasks = world.job(job).tasks
    world.wait(100)
    world.exit(tasks[0]).empty(tasks[0])
    world.wait(500)
    world.exit(*tasks[1:]).empty(*tasks[1:])
    assert sum(fact.gpu_milli_ms for fact in account(world)) == 1000 * (100 + 3 * 600) * SECOND


def test_charges_come_in_the_order_of_task_ids_and_a_few_at_a_time():
    world = World(node())
    for k in range(3):
        job = world.submit_running(spec(gpus=1, name=f"j{k}"), "n1")
        world.wait(1).finish(job)
    names = [fact.task for fact in charge(world.state, world.at)]
    assert names == sorted(names)
    assert len(names) == 3 <= CHARGES_MAX


def test_a_budget_ends_while_jobs_still_run_and_comes_back_when_it_is_raised():
    world = World(node(), groups=[group("a", budget_gpu_hours=2), group("a/b", budget_gpu_hours=100)])
    world.submit_running(spec(gpus=1, group="a/b"), "n1")
    world.wait(7199)
    assert account(world) == ()
    assert next_budget_end_ms(world.state, world.at) == world.at + SECOND
    world.wait(1)
    (exhausted,) = account(world)
    assert exhausted == f.BudgetExhausted(group="a", used_gpu_milli_ms=2 * GPU_HOUR, exhausted=True)
    assert account(world) == ()
    world.tell("admission", f.GroupSet(group=group("a", budget_gpu_hours=3), by="admin"))
    (solvent,) = account(world)
    assert not solvent.exhausted
    assert world.state.kept.exhausted == {}


def test_taking_a_budget_away_makes_the_group_solvent():
    world = World(node(), groups=[group("a", budget_gpu_hours=1)])
    world.submit_running(spec(gpus=8, group="a"), "n1")
    world.wait(3600)
    assert account(world)[0].exhausted
    world.tell("admission", f.GroupSet(group=group("a"), by="admin"))
    assert not account(world)[0].exhausted
    assert account(world) == ()


def test_a_lost_node_is_charged_to_the_moment_of_its_loss():
    world = World(node())
    job = world.submit_running(spec(gpus=8), "n1")
    world.wait(60)
    world.tell("telemetry", f.NodeLost(node="n1", silent_ms=30_000))
    world.wait(7200)
    assert spent(world.state, world.at).total("") == 8000 * 60 * SECOND
    world.see(node())
    (charged,) = account(world)
    assert charged.job == job
    assert charged.gpu_milli_ms == 8000 * 60 * SECOND


def test_nothing_ends_when_nobody_has_a_budget():
    world = World(node())
    world.submit_running(spec(gpus=8), "n1")
    assert next_budget_end_ms(world.state, world.at) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 300), st.booleans()), min_size=1, max_size=12))
def test_all_charges_together_are_the_integral_of_what_was_held(actions):
    """Q04: the sum over jobs is exactly the sum over GPUs and seconds, whenever charges are written down."""
    world = World(node("n1"), node("n2"), groups=[group("a"), group("b")])
    held, integral, running = 0, 0, []
    for gpus, seconds, is_end in actions:
        if is_end and running:
            job, size = running.pop(0)
            world.finish(job)
            held -= size
        elif held + gpus <= 8:
            running.append((world.submit_running(spec(gpus=gpus, group="ab"[gpus % 2]), "n1"), gpus))
            held += gpus
        world.wait(seconds)
        integral += held * 1000 * seconds * SECOND
        if seconds % 2:
            account(world)
        assert spent(world.state, world.at).total("") == integral
    for job, _ in running:
        world.finish(job)
    account(world)
    charged = world.state.kept.charged
    assert charged.get("", 0) == integral == charged.get("a", 0) + charged.get("b", 0)
