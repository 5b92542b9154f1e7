"""Nodes on which everything fails are closed, several at once too; broken programs close none that works."""

from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.groups import Group, User
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.killed import KILLED_MAX
from gangline_telemetry.config import Config
from gangline_telemetry.starts import DOUBTED_NODES_MAX, Starts

CONFIG = Config(black_hole_jobs=3, at_once_s=10, retest_s=600)


class Scene:
    """Nodes, jobs of two users, and who watches their starts."""

    def __init__(self, nodes: int) -> None:
        users = [User(name=name, group="lab") for name in ("ann", "bob")]
        made = [node(f"n{k + 1}") for k in range(nodes)]
        self.world = World(*made, groups=[Group(path="lab")], users=users)
        self.starts = Starts(CONFIG)
        self.count = 0

    def job(self, **fields: object) -> int:
        """A job of the next user, with retries enough."""
        self.count += 1
        user = "ann" if self.count % 2 else "bob"
        return self.world.submit(spec(group="lab", user=user, gpus=1, retries=9, **fields))

    def tell(self, lane: str, fact: f.Fact) -> None:
        self.starts.note(self.world.state, (fact,), self.world.at)
        self.world.tell(lane, fact)

    def fail(self, job: int, where: str) -> None:
        """It starts there and fails at once."""
        self.world.place(job, where)
        [task] = self.world.tasks(job)
        self.tell("agent.sim", f.TaskStarted(task=task.id))
        self.world.wait(1)
        self.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.EXITED, exit_code=1))
        self.world.empty(task.id)

    def run(self, job: int, where: str, *, for_s: float = 30) -> None:
        """It starts there and goes on."""
        self.world.place(job, where)
        [task] = self.world.tasks(job)
        self.tell("agent.sim", f.TaskStarted(task=task.id))
        self.world.wait(for_s)

    def judge(self) -> set[str]:
        """Who is closed now."""
        facts = self.starts.judge(self.world.state, self.world.at)
        if facts:
            self.world.tell("telemetry", *facts)
        return {name for name, one in self.world.state.kept.nodes.items() if one.quarantine}


def test_two_black_holes_do_not_hide_each_other_and_what_waits_goes_where_it_runs() -> None:
    scene = Scene(3)
    jobs = [scene.job() for _ in range(10)]
    for job in jobs:
        scene.fail(job, "n1")
        scene.fail(job, "n2")
    assert scene.judge() == {"n1", "n2"}
    scene.world.settle()
    places = {task.node for job in jobs for task in scene.world.tasks(job)}
    assert places == {NodeId("n3")}


def test_a_job_that_ran_well_elsewhere_is_no_excuse_for_the_nodes_on_which_it_failed() -> None:
    scene = Scene(DOUBTED_NODES_MAX + 3)
    holes = [f"n{k + 1}" for k in range(DOUBTED_NODES_MAX + 2)]
    jobs = [scene.job() for _ in range(3)]
    for job in jobs[:2]:
        for where in holes:
            scene.fail(job, where)
    assert scene.judge() == set()
    for where in holes:
        scene.fail(jobs[2], where)
    assert scene.judge() == set(), "they failed on so many nodes that they may be broken"
    for job in jobs:
        scene.run(job, f"n{DOUBTED_NODES_MAX + 3}")
    assert scene.judge() == set(holes)


def test_broken_programs_of_several_users_close_no_node_on_which_others_run() -> None:
    scene = Scene(6)
    broken = [scene.job() for _ in range(3)]
    for job in broken[:2]:
        scene.fail(job, "n1")
    scene.run(scene.job(), "n1")
    assert scene.judge() == set()
    for where in ("n2", "n3", "n1"):
        for job in broken:
            scene.fail(job, where)
            assert scene.judge() == set()


def test_broken_programs_that_are_tried_again_and_again_do_not_close_the_cluster() -> None:
    scene = Scene(9)
    broken = [scene.job() for _ in range(3)]
    for k in range(8):
        for job in broken:
            scene.fail(job, f"n{k + 1}")
        closed = scene.judge()
    assert len(closed) <= DOUBTED_NODES_MAX


def test_what_fails_on_every_node_that_there_is_closes_none() -> None:
    scene = Scene(2)
    for job in [scene.job() for _ in range(5)]:
        scene.fail(job, "n1")
        scene.fail(job, "n2")
    assert scene.judge() == set()


def test_the_only_node_that_there_is_stays_open_to_those_whose_programs_fail() -> None:
    scene = Scene(1)
    for _ in range(5):
        scene.fail(scene.job(), "n1")
        assert scene.judge() == set()


def test_a_program_that_runs_on_clears_its_node_although_it_does_not_end() -> None:
    scene = Scene(2)
    for _ in range(2):
        scene.fail(scene.job(), "n1")
    scene.run(scene.job(), "n1", for_s=11)
    assert scene.judge() == set()
    scene.fail(scene.job(), "n1")
    assert scene.judge() == set()


def test_the_end_of_a_long_run_says_nothing_of_starts_that_fail_now() -> None:
    scene = Scene(2)
    long = scene.job()
    scene.run(long, "n1", for_s=5000)
    assert scene.judge() == set()
    for _ in range(3):
        scene.fail(scene.job(), "n1")
    [task] = scene.world.tasks(long)
    scene.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.EXITED, exit_code=0))
    assert scene.judge() == {"n1"}


def test_a_new_leader_goes_on_with_the_doubling_and_an_administrator_ends_it() -> None:
    scene = Scene(2)

    def close() -> int:
        for _ in range(3):
            scene.fail(scene.job(), "n1")
        assert scene.judge() == {"n1"}
        since_ms = scene.world.at
        # Whoever leads next has seen nothing of it.
        scene.starts = Starts(CONFIG)
        while scene.judge():
            scene.world.wait(10)
        return (scene.world.at - since_ms) // 1000

    assert [close(), close(), close()] == [600, 1200, 2400]
    scene.tell("admission", f.DrainSet(node="n1", drained=False, by="root"))
    assert close() == 600


def test_a_job_that_ran_before_counts_against_the_node_on_which_it_no_longer_starts() -> None:
    scene = Scene(2)
    for _ in range(3):
        job = scene.job()
        scene.run(job, "n2", for_s=20)
        scene.judge()
        [task] = scene.world.tasks(job)
        scene.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.EXITED, exit_code=1))
        scene.world.empty(task.id)
        assert scene.world.job(job).state == JobState.WAITING
        scene.fail(job, "n1")
    assert scene.judge() == {"n1"}


def kill(scene: Scene, job: int, where: str, *, witnessed: bool = True) -> None:
    """It starts there, and its supervisor is ended at once."""
    scene.world.place(job, where)
    [task] = scene.world.tasks(job)
    scene.tell("agent.sim", f.TaskStarted(task=task.id))
    scene.world.wait(1)
    scene.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.PROCESS_LOST, witnessed=witnessed))
    scene.world.empty(task.id)


def test_a_node_that_ends_the_supervisors_of_several_jobs_is_closed_and_none_of_them_is_held_for_it() -> None:
    scene = Scene(2)
    scene.run(scene.job(), "n2")
    first = scene.job()
    for _ in range(KILLED_MAX):
        kill(scene, first, "n1")
    assert scene.world.job(first).state == JobState.SUSPENDED
    others = [scene.job() for _ in range(2)]
    for other in others:
        kill(scene, other, "n1")
    assert scene.judge() == {"n1"}
    scene.world.settle()
    assert {scene.world.job(job).state for job in (first, *others)} == {JobState.RUNNING}
    assert {task.node for job in (first, *others) for task in scene.world.tasks(job)} == {NodeId("n2")}


def test_a_program_that_ends_its_own_supervisor_closes_no_node_and_is_held() -> None:
    scene = Scene(3)
    scene.run(scene.job(), "n1")
    bad = scene.job()
    for k in range(KILLED_MAX):
        kill(scene, bad, f"n{k % 3 + 1}")
        assert scene.judge() == set()
    assert scene.world.job(bad).state == JobState.SUSPENDED


def test_processes_that_a_machine_loses_as_it_begins_anew_do_not_close_it() -> None:
    scene = Scene(2)
    scene.run(scene.job(), "n2")
    for _ in range(3):
        kill(scene, scene.job(), "n1", witnessed=False)
    assert scene.judge() == set()


def test_a_machine_that_joins_does_not_make_a_black_hole_of_the_only_one_before_it() -> None:
    """Whoever tries broken scripts on a machine and then joins a second one keeps the first."""
    scene = Scene(1)
    for _ in range(5):
        scene.fail(scene.job(), "n1")
    assert scene.judge() == set()
    scene.world.tell("agent.sim", f.NodeSeen(node=node("n2")))
    assert scene.judge() == set()
    jobs = [scene.job() for _ in range(3)]
    for job in jobs:
        scene.fail(job, "n1")
    assert scene.judge() == {"n1"}, "what fails from then on could go elsewhere"


def test_what_runs_well_on_the_machine_that_joined_shows_that_the_first_is_a_black_hole() -> None:
    scene = Scene(1)
    jobs = [scene.job() for _ in range(3)]
    for job in jobs:
        scene.fail(job, "n1")
    scene.world.tell("agent.sim", f.NodeSeen(node=node("n2")))
    for job in jobs:
        scene.run(job, "n2")
    assert scene.judge() == {"n1"}
