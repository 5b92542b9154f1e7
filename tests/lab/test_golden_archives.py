"""Archives of earlier days replay to the byte; a change of behaviour must change them on purpose.

`WRITE_GOLDEN=1 pytest tests/lab/test_golden_archives.py` writes them anew.
"""

import gzip
import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.lab.logged import LoggedWorld
from tests.make import node, spec

from gangline_core.cluster import Policy
from gangline_core.fold import chain
from gangline_core.groups import Group
from gangline_core.spec import ServiceClass
from gangline_lab import philly
from gangline_lab.archive import ArchiveError, read
from gangline_lab.readers import read_trace
from gangline_lab.replay import replay
from gangline_lab.sim.conditions import Conditions, Failures
from gangline_lab.sim.engine import Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.workload import Workload, cut
from gangline_wire.archive import encode_line, segment_name
from gangline_wire.codec import encode

GOLDEN = Path(__file__).parent / "golden"
SEGMENT = segment_name(1)
FAILING = Conditions(failures=Failures(node_mtbf_hours=30, repair_s=900), restart_s=30, checkpoint_s=600)


def jobs() -> Workload:
    """Sixty jobs of Philly, every seventh urgent, every fifth opportunistic."""
    trace = cut(read_trace(f"philly:{philly.JOB_LIST}"), first=200, jobs=60)
    arrivals = list(trace.arrivals)
    for place, one in enumerate(arrivals):
        level = "high" if place % 7 == 3 else "normal"
        kind = ServiceClass.OPPORTUNISTIC if place % 5 == 1 else ServiceClass.BURSTABLE
        arrivals[place] = replace(one, spec=replace(one.spec, level=level, service_class=kind))
    return replace(trace, arrivals=tuple(arrivals))


SCENARIOS = {
    "weighted": Scenario(trace=jobs(), fleet=read_fleet("2x8xV100"), conditions=FAILING, seed=4),
    "guarantees": Scenario(
        trace=jobs(),
        fleet=read_fleet("1x8xV100,2x4xP100"),
        groups=(Group(path="6214e9", guaranteed={"gpu_milli": 8000}),),
        policies={"default": Policy(ordering="fair_share")},
    ),
    "service": Scenario(
        trace=jobs(),
        fleet=read_fleet("2x8xV100"),
        policies={"default": Policy(ordering="least_attained", backfill_depth=0, starvation_s=0)},
        conditions=Conditions(round_s=60),
    ),
}


def unpacked(name: str, folder: Path) -> Path:
    (folder / SEGMENT).write_bytes(gzip.decompress((GOLDEN / f"{name}.jsonl.gz").read_bytes()))
    return folder


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_archive_of_an_earlier_day_replays_to_the_byte(name: str, tmp_path: Path) -> None:
    if os.environ.get("WRITE_GOLDEN"):
        simulate(SCENARIOS[name], archive=tmp_path / "new")
        packed = gzip.compress((tmp_path / "new" / SEGMENT).read_bytes(), mtime=0)
        (GOLDEN / f"{name}.jsonl.gz").write_bytes(packed)
    report = replay(unpacked(name, tmp_path))
    assert report.difference is None
    assert report.equal
    assert report.decisions > 100


def test_an_archive_of_an_older_schema_says_which_migration_is_missing(tmp_path: Path) -> None:
    world = LoggedWorld(node("n1"))
    world.submit(spec("a"))
    first = world.log[0]
    raw = encode(first.facts)
    old = b'{"lane":"%s","epoch":1,"seq_seen":0,"at":%d,"facts":%s,"v":0}' % (first.lane.encode(), first.at, raw)
    line = encode_line(replace(first, seq=1, raw=old), head=chain("", old))
    (tmp_path / SEGMENT).write_bytes(line)
    with pytest.raises(ArchiveError, match="the migration from 0 to 1 is missing"):
        list(read(tmp_path))
