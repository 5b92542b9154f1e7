"""What the past tells where limits decided: whose going would have helped, and who was not in the queue yet."""

from pathlib import Path

from msgspec.structs import replace
from tests.lab.logged import LoggedWorld
from tests.lab.simulated import prove_archive, trace
from tests.make import node, spec

from gangline_core.cluster import Policy
from gangline_core.groups import Group
from gangline_core.ids import JobId
from gangline_core.spec import ArraySpec
from gangline_lab.audit import preemptions
from gangline_lab.past_words import audit_lines, why_lines
from gangline_lab.sim.engine import Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.why import why_of


def test_an_audit_says_of_whom_nothing_would_have_come_back_below_the_limit_that_was_in_the_way(tmp_path: Path) -> None:
    """Group a may hold 4 of 8 GPUs and does; b's job lost least, and its going would have been in vain."""
    jobs = trace((0, 4, 900), (50, 4, 900), (100, 4, 100))
    told = [("a", 0), ("b", 0), ("a", 5)]
    arrivals = tuple(
        replace(one, spec=replace(one.spec, group=group, priority=priority))
        for one, (group, priority) in zip(jobs.arrivals, told, strict=True)
    )
    groups = (Group(path="a", limit={"gpu_milli": 4000}), Group(path="b"))
    policies = {"default": Policy(ordering="priority")}
    scenario = Scenario(
        trace=replace(jobs, arrivals=arrivals), fleet=read_fleet("1x8xV100"), policies=policies, groups=groups
    )
    simulate(scenario, archive=tmp_path / "a")
    prove_archive(tmp_path / "a")
    (one,) = preemptions(tmp_path / "a")
    assert (one.victim.job, one.beneficiary.job, one.lost_ms) == (1, 3, 100_000)
    assert [(other.party.job, other.rule) for other in one.others] == [(2, "")]
    text = "\n".join(audit_lines(one))
    assert "what it counts gives nothing back below the limit of group a, which keeps that job out" in text
    assert "Nobody else could go" in text


def test_why_says_of_an_element_that_its_array_let_it_into_the_queue_late(tmp_path: Path) -> None:
    """It had waited for a minute, and no round had left it waiting: nothing said why."""
    world = LoggedWorld(node(gpus=4))
    array = world.submit(spec(name="sweep", gpus=1, array=ArraySpec(ranges=((0, 3, 1),), at_most=2)))
    world.settle()
    world.wait(60).finish(JobId(array + 1))
    world.settle()
    told = why_of(world.log, array, 2)
    lines = why_lines(told)
    assert "1 min 0 s later" in lines[0]
    assert lines[1].endswith("1 min 0 s after its array, of which at most 2 are there at once.")
    assert why_of(world.log, array, 0).entered_ms == 0
