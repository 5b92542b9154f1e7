"""What the past tells where limits decided: whose going would have helped, and whose would not."""

from pathlib import Path

from msgspec.structs import replace
from tests.lab.simulated import prove_archive, trace

from gangline_core.cluster import Policy
from gangline_core.groups import Group
from gangline_lab.audit import preemptions
from gangline_lab.past_words import audit_lines
from gangline_lab.sim.engine import Scenario, simulate
from gangline_lab.sim.fleet import read_fleet


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
