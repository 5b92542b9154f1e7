"""Files that people and machines leave to be read: each gives a value or its reader's own refusal."""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from tests.lines import bytes_only
from tests.security.test_decoders import busy_state, mutated

from gangline_agent.desk import Desk
from gangline_agent.fleet import FleetError as AgentFleetError
from gangline_agent.fleet import read as describe
from gangline_agent.journal import Folder
from gangline_agent.topology_file import TopologyFileError, read_place
from gangline_agent.xids import Xids
from gangline_client.errors import SettingsError
from gangline_client.settings import read_contexts
from gangline_core.foresight.learnt import ModelError
from gangline_gateway.keys import readable as readable_keys
from gangline_kit import follower
from gangline_kit.clock import SystemClock
from gangline_lab.learning.modelfile import read_model
from gangline_lab.policyfile import PolicyFileError as LabPolicyError
from gangline_lab.policyfile import read_policy
from gangline_lab.sim.fleet import FleetError, read_fleet
from gangline_recorder.archive import Archive, BrokenArchiveError, lines, segments
from gangline_wire.connection import ConnectionFileError, connection_file, read_connection
from gangline_wire.policyfile import PolicyFileError, parse_policy

ROUNDS = 120
DEEP = b"[" * 1_050
DEEP_YAML = b"{a: " * 1_050
POLICY = b"""
groups:
  research: {guaranteed: {gpus: 4}, limit: {gpus: 8}, weight: 2, users: {ann: {limit: {gpus: 2}}}}
pools:
  default: {policy: {ordering: weighted, formula: "age + 2 * priority"}}
prices: {gpu: 2}
"""
RULES = b"""
name: mine
policy: {ordering: fifo, starvation_s: 60}
groups: [{path: vision, limit: {gpu_milli: 8000}}]
"""
CONTEXTS = b"current: here\ncontexts: {here: {url: 'http://h:1', token: t, group: g}}\n"
FLEET = b"nodes:\n- {count: 4, gpus: 8, model: V100}\n"


def spoilt(good: bytes, draw: random.Random) -> bytes:
    chance = draw.random()
    if chance < 0.05:
        return draw.choice((b"", b"\xff\xfe", DEEP, DEEP_YAML, b"null", b"1", b'"a"', b"{}", b"[]", b"\x00" * 9))
    return mutated(good, draw) if chance < 0.95 else draw.randbytes(draw.randrange(300))


def a_snapshot() -> bytes:
    return follower.encode(busy_state(), b"{}")[1]


def a_model() -> bytes:
    return b'{"version":"x","made_of":"t","jobs_trained":1,"jobs_held_out":1,"scores":[],"model":"AAAA"}'


def of_file(read: Callable[[Path], object], name: str) -> Callable[[bytes, Path], object]:
    def from_bytes(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return read(path)

    return from_bytes


def machines(path: Path) -> object:
    return describe(path, agent="a", pool="default")


def connection(data: bytes, folder: Path) -> object:
    connection_file(folder).write_bytes(data)
    return read_connection(folder)


SIZE = b'{"job":1,"attempt":1,"task":"1-1-worker-0","rank":0,"role":"worker","size":2,"sizes":{"worker":2}}'
KEYS = (
    b'[{"kty":"EC","crv":"P-256","kid":"k","x":"'
    + b"A" * 43
    + b'","y":"'
    + b"A" * 43
    + b'"},{"kty":"RSA","n":"AQAB","e":"AQAB"}]'
)
LIFE = b'intent {"task": "1-1-worker-0", "job": 1, "placed_ms": 5}\nclaimed 7 8 b\nstarted 9 10\nexited 1\nempty\n'
TOPOLOGY = b"nodes:\n- {names: ['n*'], labels: {rack: r1}, sockets: [0, 0, 1], switches: [0, 1], islands: [0]}\n"


def of_task(name: str) -> Callable[[bytes, Path], object]:
    """What a task, which runs as our user, may have written in the place of our own notes."""

    def from_bytes(data: bytes, folder: Path) -> object:
        (folder / name).write_bytes(data)
        task = Folder(folder)
        return task.life(), task.intent(), task.sizing(), task.told()

    return from_bytes


def desk(data: bytes, folder: Path) -> object:
    (folder / "desk.json").write_bytes(data)
    return Desk(folder / "desk.json", SystemClock(), hearer=object(), new_key=lambda: "k")  # type: ignore[arg-type]  # nobody asks it


def keys(data: bytes, folder: Path) -> object:
    try:
        listed = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return readable_keys(listed) if isinstance(listed, list) else None


def page(data: bytes, folder: Path) -> object:
    try:
        document = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return parse_policy(document)


FILES: dict[
    str, tuple[Callable[[bytes, Path], object], Callable[[], bytes], tuple[type[Exception], ...]]
] = {
    "snapshot": (lambda data, _: follower.decode(data), a_snapshot, (follower.SnapshotError,)),
    "policy page": (page, lambda: POLICY, (PolicyFileError,)),
    "policy of the lab": (of_file(read_policy, "p.yaml"), lambda: RULES, (LabPolicyError,)),
    "machines of the lab": (
        of_file(lambda path: read_fleet(str(path)), "f.yaml"), lambda: FLEET, (FleetError,)
    ),
    "contexts": (of_file(read_contexts, "c.yaml"), lambda: CONTEXTS, (SettingsError,)),
    "machines of an agent": (of_file(machines, "n.yaml"), lambda: FLEET, (AgentFleetError,)),
    "learnt model": (of_file(read_model, "m.json"), a_model, (ModelError,)),
    "life of a task": (of_task("life"), lambda: LIFE, ()),
    "intent of a task": (of_task("task.json"), lambda: LIFE.split(b"\n")[0][7:], ()),
    "size of a task": (of_task("size.json"), lambda: SIZE, ()),
    "position of a task": (of_task("told"), lambda: b"12", ()),
    "memory of the desk": (desk, lambda: b'{"key": "k", "port": 1}', ()),
    "events of cards": (of_file(Xids, "xids.json"), lambda: b'{"GPU-1": [{"xid": 79, "at_ms": 5}]}', ()),
    "topology": (of_file(lambda path: read_place(str(path), "n1"), "t.yaml"), lambda: TOPOLOGY, (TopologyFileError,)),
    "keys of a provider": (keys, lambda: KEYS, ()),
    "connection": (connection, lambda: b'{"url": "http://127.0.0.1:1", "token": "t"}', (ConnectionFileError,)),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_anything_is_read_or_refused_by_name(name: str, tmp_path: Path) -> None:
    read, good, refusals = FILES[name]
    seed, draw = good(), random.Random(name)
    if name != "learnt model":
        read(seed, tmp_path)
    for _ in range(ROUNDS):
        with suppress(*refusals):
            read(spoilt(seed, draw), tmp_path)


def test_an_archive_of_anything_is_read_as_far_as_it_holds_or_refused(tmp_path: Path) -> None:
    draw = random.Random(9)
    archive = Archive(tmp_path, segment_bytes=400)
    for seq in range(1, 12):
        archive.append(bytes_only(seq, at=seq, data=b'{"n":%d}' % seq))
    archive.close()
    path = segments(tmp_path)[-1]
    whole = path.read_bytes()
    for _ in range(ROUNDS):
        path.write_bytes(spoilt(whole, draw))
        with suppress(BrokenArchiveError):
            list(lines(tmp_path))
        with suppress(BrokenArchiveError):
            Archive(tmp_path, segment_bytes=400).close()
        path.write_bytes(whole)
