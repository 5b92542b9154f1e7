"""Whatever is done to a good file of any format, its reader gives a workload or one complaint that says where.

Every format starts from a file that is read well; cells, bytes, lines and compression are then spoilt at random.
"""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.lab.logged import LoggedWorld
from tests.lab.test_readers import CHRONUS, GAVEL, MURI, SACCT, SACCT_ROW, SHOCKWAVE, SWF, TRES, pod
from tests.make import node, spec

from gangline_lab.readers import READERS, read_trace
from gangline_lab.rows import TraceError
from gangline_lab.sim.goodput import read_profiles
from gangline_lab.sim.throughput import read_throughputs

ROUNDS = 150
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
GOOD = {
    "chronus": CHRONUS + "0,vc,4,12198,6910,resnet101,211,8,282,10,0,strict\n1,vc,4,12199,1,vgg,2,8,0,10,1,best\n",
    "gavel": GAVEL * 3,
    "kubernetes": json.dumps({"items": [pod("w-0", "job-1"), pod("w-1", "job-1"), pod("alone")]}, indent=1),
    "muri": MURI + "0,4,1456,10,resnet18,128,926133,9,886,703,62,17,0\n1,8,1500,10,vgg,64,9261,9,88,70,6,1,0\n",
    "openb": OPENB + "a,6000,12288,1,460,V100M16|V100M32,LS,Running,100,400,150\nb,0,0,2,1000,,BE,Failed,90,190,\n",
    "philly": "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-03 00:00:00,60,2,120,a\n"
    "2017-10-03 00:01:00,30,1,30,b\n",
    "pollux": "name,time,application,num_replicas,batch_size\nc-0,53,cifar10,6,2048\nb-1,60,bert,2,96\n",
    "sacct": SACCT + (SACCT_ROW + TRES + "\n") * 2,
    "shockwave": SHOCKWAVE * 3,
    "swf": SWF,
    "tiresias": "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n1,8,30,133,vgg11,147,23\n"
    "2,1,40,13,vgg11,17,23\n",
}
JUNK = (
    "",
    "-1",
    "1e400",
    "nan",
    "0x10",
    "99999999999999999999",
    "é",
    "\x00",
    '"',
    "a,b",
    "\ufeff",
    "null",
    "1_000",
    "٣",
    " ",
)
WHERE = re.compile(r"line \d+")


def archive(folder: Path) -> Path:
    world = LoggedWorld(node("n1", gpus=2))
    for _ in range(3):
        world.finish(world.run(world.submit(spec(gpus=1)), "n1"))
    return world.write(folder)


def spoilt(text: str, draw: Random) -> bytes:
    """The file with a cell, a line or a few bytes replaced."""
    match draw.randrange(4):
        case 0:
            cells = re.split(r"([,|\t\n :\"])", text)
            cells[2 * draw.randrange((len(cells) + 1) // 2)] = draw.choice(JUNK)
            return "".join(cells).encode()
        case 1:
            lines = text.splitlines(keepends=True)
            at = draw.randrange(len(lines))
            lines[at : at + draw.randrange(2)] = [draw.choice(lines)[: draw.randrange(1, 40)]]
            return "".join(lines).encode()
        case 2:
            data = bytearray(text.encode())
            for _ in range(draw.randrange(1, 6)):
                data[draw.randrange(len(data))] = draw.randrange(256)
            return bytes(data)
        case _:
            return text.encode()[: draw.randrange(len(text))]


def refused(read: Callable[[], object]) -> TraceError | None:
    """The complaint; None when it was read. Anything else is a traceback, and fails the test."""
    try:
        read()
    except TraceError as error:
        return error
    return None


def test_every_format_that_is_offered_is_spoilt_here() -> None:
    assert {*GOOD, "archive"} == set(READERS)


@pytest.mark.parametrize("kind", sorted(GOOD))
def test_a_spoilt_trace_is_read_or_refused_with_its_place(kind: str, tmp_path: Path) -> None:
    path, draw, complaints = tmp_path / "trace", Random(kind), []
    path.write_text(GOOD[kind], encoding="utf-8")
    assert read_trace(f"{kind}:{path}").arrivals, "the file that everything starts from is a good one"
    for _ in range(ROUNDS):
        path.write_bytes(spoilt(GOOD[kind], draw))
        complaint = refused(lambda: read_trace(f"{kind}:{path}"))
        if complaint is not None:
            complaints.append(str(complaint))
    assert len(complaints) > ROUNDS // 10
    assert all(WHERE.search(one) and one.startswith("trace") for one in complaints), complaints
    assert all(len(one) < 1_000 for one in complaints)


@pytest.mark.parametrize("kind", sorted(GOOD))
def test_a_packed_trace_that_is_cut_or_spoilt_is_refused(kind: str, tmp_path: Path) -> None:
    path, draw = tmp_path / "trace.gz", Random(kind)
    packed = gzip.compress(GOOD[kind].encode(), mtime=0)
    for _ in range(20):
        data = bytearray(packed[: draw.randrange(len(packed))] if draw.random() < 0.5 else packed)
        if data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        refused(lambda: read_trace(f"{kind}:{path}"))
    path.write_bytes(packed[: len(packed) // 2])
    assert refused(lambda: read_trace(f"{kind}:{path}")) is not None


def test_a_spoilt_archive_is_refused_with_its_segment_and_line(tmp_path: Path) -> None:
    draw = Random("archive")
    good = archive(tmp_path / "good")
    for number in range(40):
        folder = tmp_path / str(number)
        shutil.copytree(good, folder)
        segment = draw.choice(sorted(folder.iterdir()))
        segment.write_bytes(spoilt(segment.read_text(), draw))
        complaint = refused(lambda folder=folder: read_trace(f"archive:{folder}"))  # type: ignore[misc]  # bound now
        assert complaint is None or WHERE.search(str(complaint))
    assert refused(lambda: read_trace(f"archive:{tmp_path / 'nowhere'}")) is not None


def test_spoilt_tables_of_throughputs_are_refused(tmp_path: Path) -> None:
    good = json.dumps({"v100": {"('LM (batch size 5)', 1)": {"null": 5.5, "('LM (batch size 5)', 1)": [2.0, 2.5]}}})
    path, draw, complaints = tmp_path / "table.json", Random("table"), 0
    path.write_text(good)
    assert read_throughputs(path).alone
    for _ in range(ROUNDS):
        path.write_bytes(spoilt(good, draw))
        complaints += refused(lambda: read_throughputs(path)) is not None
    assert complaints > ROUNDS // 2


def test_spoilt_profiles_are_refused(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "tools" / "bench" / "data" / "pollux" / "profiles" / "bert"
    draw, complaints = Random("profiles"), 0
    for number in range(25):
        folder = tmp_path / str(number)
        shutil.copytree(source, folder / "bert")
        file = draw.choice(sorted((folder / "bert").iterdir()))
        lines = file.read_text().splitlines(keepends=True)[:30]
        file.write_bytes(spoilt("".join(lines), draw))
        complaint = refused(lambda folder=folder: read_profiles(folder))  # type: ignore[misc]  # bound now
        complaints += complaint is not None
    assert complaints > 3


@pytest.mark.parametrize("speed", ["-1", "1e300", "[1.0, -2.0]", "[1e300, 1.0]"])
def test_a_table_with_a_speed_that_nothing_has_is_refused(speed: str, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(f'{{"v100": {{"(\'LM\', 1)": {{"null": {speed}}}}}}}')
    with pytest.raises(TraceError, match=r"column v100: .* expected from 0 to 1e\+09 steps/s, found"):
        read_throughputs(path)


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        (
            "placements.csv",
            "placement,local_bsz,step_time,sync_time\n1,12,0,0\n",
            "line 2, column step_time: expected a",
        ),
        ("validation-some.csv", "progress,grad_sqr,grad_var\n1,1,1\n2,1,1\n", "expected a name such as validation-128"),
        ("validation-24.csv", "progress,grad_sqr,grad_var\n1,1,1\n", "a batch size has 1 validated epochs of 2"),
    ],
)
def test_a_profile_that_makes_no_sense_is_refused(file: str, text: str, complaint: str, tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "tools" / "bench" / "data" / "pollux" / "profiles" / "bert"
    shutil.copytree(source, tmp_path / "bert")
    (tmp_path / "bert" / file).write_text(text)
    with pytest.raises(TraceError, match=re.escape(complaint)):
        read_profiles(tmp_path)
