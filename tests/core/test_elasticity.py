"""Elastic jobs grow into what nobody else could use, step by allowed step, and come to rest."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.clockwork import Clockwork
from tests.make import World, gpu_amount, group, node, role, spec

from gangline_core import cycle, elasticity
from gangline_core import facts as f
from gangline_core.cluster import Pool
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.spec import ServiceClass


def proposed(world: World) -> list[tuple[int, str, int]]:
    return [(p.job, p.role, p.size) for p in elasticity.propose(world.state, "default", world.at)]


def grow(world: World, pool: str = "default") -> list[tuple[int, int]]:
    """Propose, hold the round, start what grew; (job, size) of what was proposed."""
    facts = elasticity.propose(world.state, pool, world.at)
    if facts:
        world.tell(f"elastic.{pool}", *facts)
        world.settle(pool)
    return [(fact.job, fact.size) for fact in facts]


def elastic(size: int = 2, **fields):
    return spec(**{"gpus": 1, "tasks": size, "minimum": 1, "maximum": 8, **fields})


def test_a_running_job_grows_into_idle_gpus():
    world = World(node("n1"))
    job = world.submit_running(elastic(), "n1")
    assert proposed(world) == [(job, "worker", 8)]
    assert grow(world) == [(job, 8)]
    assert world.job(job).state == JobState.RUNNING
    assert world.job(job).sizes == {"worker": 8}
    assert proposed(world) == []


def test_growth_stays_inside_the_allowed_sizes():
    world = World(node("n1"))
    job = world.submit_running(elastic(3, minimum=3, maximum=12, sizes=[3, 6, 9, 12]), "n1")
    assert grow(world) == [(job, 6)]
    assert grow(world) == []


def test_an_unchanged_world_never_changes_sizes_twice():
    world = World(node("n1", gpus=7))
    job = world.submit_running(elastic(3, minimum=3, maximum=12, sizes=[3, 6, 9, 12]), "n1")
    changes = [grow(world) for _ in range(10)]
    assert changes == [[(job, 6)]] + [[]] * 9


def test_a_size_is_proposed_once_even_when_the_round_could_not_give_it():
    world = World(node("n1"))
    world.submit_running(elastic(), "n1")
    facts = elasticity.propose(world.state, "default", world.at)
    world.tell("elastic.default", *facts)
    assert proposed(world) == []
    world.tell("admission", f.DrainSet(node=NodeId("n1"), drained=True, by="admin"))
    world.round()
    assert world.state.kept.pools["default"].proposals == {}
    assert proposed(world) == [] or world.state.kept.nodes[NodeId("n1")].drained
    world.tell("admission", f.DrainSet(node=NodeId("n1"), drained=False, by="admin"))
    assert proposed(world) == [(1, "worker", 8)]


def test_room_is_shared_by_who_has_grown_least():
    world = World(node("n1"))
    first = world.submit_running(elastic(1), "n1")
    second = world.submit_running(elastic(1), "n1")
    assert proposed(world) == [(first, "worker", 4), (second, "worker", 4)]


def test_who_runs_below_what_it_wanted_grows_first():
    world = World(node("n1"))
    short = world.submit(gpus=1, tasks=4, minimum=1, maximum=4)
    world.place(short, "n1", sizes={"worker": 1})
    world.start(short)
    world.submit_running(elastic(4), "n1")
    assert proposed(world) == [(short, "worker", 4)]


def test_nothing_grows_into_room_that_a_waiting_job_could_use():
    world = World(node("n1"), node("n2"))
    world.submit_running(elastic(2), "n1")
    world.submit_running(spec(gpus=4), "n2")
    world.set_policy(shrink=False)
    waits = world.submit(gpus=8)
    world.settle()
    assert world.job(waits).state == JobState.WAITING
    assert proposed(world) == []


def test_a_waiting_job_that_could_not_use_the_room_does_not_stop_growth():
    world = World(node("n1", model="A100"), node("n2", model="V100"), groups=[group("q", limit=gpu_amount(0))])
    job = world.submit_running(elastic(2), "n1")
    world.submit_running(spec(gpus=8, gpu_models=["V100"]), "n2")
    world.submit(gpus=8, gpu_models=["V100"])
    world.submit(gpus=1, group="q")
    world.settle()
    assert grow(world) == [(job, 8)]


def test_a_reserved_node_that_serves_another_pool_by_now_does_not_stop_growth():
    world = World(node("n1", gpus=4), node("n2", gpus=4))
    world.tell("admission", f.PoolSet(pool=Pool(name="large"), by="admin"))
    world.submit_running(elastic(1, time_limit_s=500), "n1")
    world.submit_running(spec(gpus=4, time_limit_s=1_000), "n2")
    waiting = world.submit(gpus=4, time_limit_s=100, exclude_nodes=("n1",))
    world.settle()
    assert [one.job for one in world.state.kept.pools["default"].reservations] == [waiting]
    world.tell("admission", f.NodeAssigned(node=NodeId("n2"), pool="large", by="admin"))
    world.tell("admission", f.CancelRequested(job=JobId(waiting), by="ada"))
    assert grow(world)


def test_a_job_that_was_not_looked_at_yet_comes_before_growth():
    world = World(node("n1"))
    world.submit_running(elastic(2), "n1")
    late = world.submit(gpus=6)
    assert proposed(world) == []
    world.settle()
    assert world.job(late).state == JobState.RUNNING


def test_growth_that_was_proposed_gives_way_to_a_job_that_came_meanwhile():
    world = World(node("n1"))
    job = world.submit_running(elastic(2), "n1")
    world.tell("elastic.default", *elasticity.propose(world.state, "default", world.at))
    late = world.submit(gpus=4)
    world.round()
    assert world.job(late).state == JobState.STARTING
    assert world.job(job).sizes == {"worker": 4}


def test_no_more_is_granted_than_quota_allows():
    world = World(node("n1"), groups=[group("q", limit=gpu_amount(4))])
    job = world.submit_running(elastic(3, group="q"), "n1")
    assert grow(world) == [(job, 4)]
    assert world.job(job).sizes == {"worker": 4}


def test_a_job_keeps_what_it_has_while_it_asks_for_more():
    world = World(node("n1"), groups=[group("q", limit=gpu_amount(4))])
    job = world.submit_running(elastic(3, group="q", minimum=3, maximum=5, sizes=[3, 5]), "n1")
    assert proposed(world) == []
    assert world.job(job).sizes == {"worker": 3}
    assert world.state.usage["q"]["gpu_milli"] == 3000


def test_members_stay_on_the_model_and_in_the_domain_of_the_gang():
    rack = "topology.gangline.dev/rack"
    world = World(
        node("n1", gpus=2, labels={rack: "a"}),
        node("n2", gpus=2, labels={rack: "b"}),
        node("n3", gpus=2, model="V100", labels={rack: "a"}),
        node("n4", gpus=2, labels={rack: "a"}),
    )
    job = world.submit_running(elastic(2, topology="rack"), "n1")
    grow(world)
    assert [task.node for task in world.tasks(job)] == ["n1", "n1", "n4", "n4"]


def test_an_island_that_is_required_is_not_left():
    world = World(node("n1", islands=[0, 0, 0, 0, 1, 1, 1, 1]))
    job = world.submit_running(elastic(2, topology="nvlink"), ("n1", [0]), ("n1", [1]))
    grow(world)
    assert sorted(share.index for task in world.tasks(job) for share in task.gpus) in ([0, 1, 2, 3], [0, 1])


def test_a_socket_that_is_required_is_not_left_though_its_island_goes_on():
    world = World(node("n1", gpus=4, islands=[0] * 4, sockets=[0, 0, 1, 1]))
    job = world.submit_running(elastic(2, topology="socket"), ("n1", [0]), ("n1", [1]))
    grow(world)
    held = {share.index // 2 for task in world.tasks(job) for share in task.gpus}
    assert len(held) == 1


def test_growth_can_be_switched_off():
    world = World(node("n1"))
    world.submit_running(elastic(), "n1")
    world.set_policy(elastic_growth=False)
    assert proposed(world) == []


def test_a_job_that_is_still_changing_is_left_alone():
    world = World(node("n1"))
    job = world.submit(gpus=1, tasks=2, minimum=1, maximum=8)
    world.place(job, "n1")
    assert proposed(world) == []
    world.start(job)
    assert proposed(world) == [(job, "worker", 8)]


def test_room_that_is_being_cleared_for_somebody_is_not_grown_into():
    world = World(node("n1"), node("n2"))
    world.submit_running(spec(gpus=8, level="low"), "n1")
    world.submit_running(elastic(2), "n2")
    world.submit_running(spec(gpus=6, preemptible=False), "n2")
    high = world.submit(gpus=8, level="high")
    world.round()
    assert set(world.state.kept.claims) == {high}
    assert proposed(world) == []


def test_members_that_come_later_get_new_names_and_later_ranks():
    world = World(node("n1"))
    job = world.submit_running(elastic(2), "n1")
    grow(world)
    waits = world.submit(gpus=4)
    world.settle()
    world.finish(waits)
    world.settle()
    grow(world)
    names = [task.id for task in world.tasks(job)]
    assert len(names) == len(set(names)) == 8
    assert [name.rpartition("-")[2] for name in names] == ["0", "1", "2", "3", "8", "9", "10", "11"]
    assert [task.rank for task in world.tasks(job)] == list(range(8))


def test_grow_shrink_and_grow_again_as_others_come_and_go():
    play = Clockwork(node("n1"), elastic=True)
    play.arrive(0, elastic(2), runs_s=1000)
    play.arrive(100, spec(gpus=4), runs_s=100)
    play.run(50)
    assert play.world.job(JobId(1)).sizes == {"worker": 8}
    play.run(150)
    assert play.world.job(JobId(1)).sizes == {"worker": 4}
    assert play.first_start(2) == 100
    play.run(300)
    assert play.world.job(JobId(1)).sizes == {"worker": 8}
    assert play.world.job(JobId(1)).attempt == 1


def test_a_job_evicted_while_it_grew_comes_back_at_its_own_smallest():
    world = World(node("n1"), groups=[group("q", limit=gpu_amount(7))])
    job = world.submit_running(elastic(6, maximum=10, group="q"), "n1")
    world.tell("elastic.default", *elasticity.propose(world.state, "default", world.at))
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))
    world.stop_all()
    world.tell("admission", f.GroupSet(group=group("q", limit=gpu_amount(3)), by="admin"))
    world.tell("admission", f.HoldSet(job=job, held=False, by="ada"))
    world.settle()
    assert world.job(job).sizes == {"worker": 3}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 3), st.sampled_from([0.5, 1, 2]), st.sampled_from([1, 2, 3])),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 3),
)
def test_sizes_come_to_rest_and_stay_allowed(jobs, nodes):
    world = World(*(node(f"n{k}") for k in range(nodes)))
    for least, more, gpus, step in jobs:
        sizes = list(range(least, least + more + 9, step))
        world.submit(
            spec(
                roles=[role(tasks=least, minimum=least, maximum=sizes[-1], sizes=sizes, gpus=gpus)],
                service_class=ServiceClass.BURSTABLE,
            )
        )
    world.settle()
    for _ in range(6):
        if not grow(world):
            break
    else:
        raise AssertionError("sizes change for ever")
    for job in world.state.live_jobs():
        [one] = job.spec.roles
        assert one.allows(job.sizes[one.name])
    assert not cycle.round_due(world.state, "default")


def test_a_job_of_which_a_member_ended_well_grows_no_more():
    world = World(node("n1", gpus=4))
    job = world.submit(spec(roles=[role(tasks=2, minimum=1, maximum=4, gpus=1)]))
    world.settle()
    first = world.tasks(job)[0].id
    world.exit(first).empty(first)
    world.settle()
    assert elasticity.propose(world.state, "default", world.at + 600_000) == ()
    world.finish(job)
    assert world.job(job).state == JobState.SUCCEEDED
