"""An agent tells of its own machines; of others nobody believes it."""

import pytest
from tests.make import World, node, spec

from gangline_core.facts import NodeSeen
from gangline_telemetry.believed import believed
from gangline_wire import subjects
from gangline_wire.contract import Progress
from gangline_wire.samples import JobReport, NodeSample, Samples


def told(agent: str, world: World, task: str) -> Samples:
    nodes = tuple(NodeSample(node=name, at=world.at) for name in ("n1", "n2", "new"))
    report = JobReport(job=1, attempt=1, task=task, progress=Progress(permille=500))
    return Samples(agent=agent, nodes=nodes, reports=(report,), beats={task: 1}, stuck=(task,))


def test_an_agent_is_believed_about_its_own_nodes_and_tasks_only() -> None:
    world = World(node("n1", agent="one"), node("n2", agent="two"))
    task = world.job(world.submit_running(spec(gpus=1), ("n1", [0]))).tasks[0]
    one = believed(told("one", world, task), subjects.samples("one"), world.state)
    assert one is not None
    assert [sample.node for sample in one.nodes] == ["n1", "new"]
    assert (len(one.reports), len(one.beats), len(one.stuck)) == (1, 1, 1)
    two = believed(told("two", world, task), subjects.samples("two"), world.state)
    assert two is not None
    assert [sample.node for sample in two.nodes] == ["n2", "new"]
    assert (len(two.reports), len(two.beats), len(two.stuck)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("task", "job", "attempt", "heard"),
    [
        ("own", 1, 1, 1),
        ("own", 2, 1, 0),
        ("own", 1, 2, 0),
        ("own", 1, 10**30, 0),
        ("unknown", 2, 1, 0),
        ("theirs", 2, 1, 0),
    ],
)
def test_nobody_speaks_for_a_job_but_a_task_of_it_that_runs_there(
    task: str, job: int, attempt: int, heard: int
) -> None:
    """Progress decides how big jobs are and which hang: a word about another job would take or keep its GPUs."""
    world = World(node("n1", agent="one"), node("n2", agent="two"))
    own, theirs = (world.job(world.submit_running(spec(gpus=1), (name, [0]))).tasks[0] for name in ("n1", "n2"))
    name = {"own": own, "theirs": theirs}.get(task, "9-1-worker-0")
    report = JobReport(job=job, attempt=attempt, task=name, progress=Progress(permille=500))
    samples = believed(Samples(agent="one", nodes=(), reports=(report,)), subjects.samples("one"), world.state)
    assert samples is not None
    assert len(samples.reports) == heard


def test_who_speaks_is_said_by_the_subject() -> None:
    world = World(node("n1", agent="one"))
    assert believed(Samples(agent="one", nodes=()), subjects.samples("two"), world.state) is None


def test_a_machine_of_a_cluster_is_looked_at_by_the_agent_of_its_name() -> None:
    world = World()
    world.tell("kubernetes.east", NodeSeen(node=node("n1", agent="kubernetes.east")))
    for agent, heard in (("n1", 1), ("n2", 0)):
        samples = believed(
            Samples(agent=agent, nodes=(NodeSample(node="n1", at=1),)), subjects.samples(agent), world.state
        )
        assert samples is not None
        assert len(samples.nodes) == heard
