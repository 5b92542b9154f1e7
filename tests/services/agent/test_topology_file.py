"""One file of the administrator says where machines stand and how their GPUs hang together, for all who read it."""

from pathlib import Path

import pytest
from tests.services.agent.test_xids import Played

from gangline_agent.nodes import Machine
from gangline_agent.topology_file import BYTES_MAX, Place, TopologyFileError, read_place
from gangline_core.cluster import Nic

FILE = """
nodes:
  - names: ["n*"]
    labels: {rack: r0, block: b0}
    nics: [{name: ib0, socket: 1, switch: 1}]
  - names: [n1, "m[12]"]
    labels: {rack: r1}
    islands: [1, 0]
    switches: [1, 0]
  - names: ["m?"]
    sockets: [1, 1]
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "topology.yaml").write_text(FILE)
    return str(tmp_path / "topology.yaml")


def test_every_machine_finds_its_own_in_the_same_file_and_later_entries_go_before(path: str) -> None:
    assert read_place(path, "n1").labels == {"rack": "r1", "block": "b0"}
    assert read_place(path, "n7").labels == {"rack": "r0", "block": "b0"}
    assert read_place(path, "m2") == Place(labels={"rack": "r1"}, islands=(1, 0), switches=(1, 0), sockets=(1, 1))
    assert read_place(path, "other") == Place()


async def test_what_the_file_says_goes_before_the_driver_and_the_command_line_before_the_file(path: str) -> None:
    machine = Machine(
        name="n1",
        pool="default",
        address="",
        labels={"block": "by-hand"},
        folder="/",
        source=Played(),
        monotonic_s=lambda: 0.0,
        place=read_place(path, "n1"),
    )
    await machine.refresh({})
    (node,) = machine.described
    assert (node.labels["rack"], node.labels["block"]) == ("r1", "by-hand")
    assert [(gpu.island, gpu.switch, gpu.socket) for gpu in node.gpus] == [(1, 1, 0), (0, 0, 0)]
    assert node.nics == (Nic(name="ib0", socket=1, switch=1),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nodes: [{names: [n1], racks: r1}]", "racks"),
        ("nodes: [{labels: {rack: r1}}]", "says for no machine"),
        ("nodes: [{names: [n1], islands: [a]}]", "islands"),
        ("racks: {r1: [n1]}", "a list `nodes` was expected"),
        ("nodes: [", "topology.yaml"),
        ("#" * (BYTES_MAX + 1), "larger than"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place_and_never_passed_over(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text(text)
    with pytest.raises(TopologyFileError, match=told):
        read_place(str(file), "n1")
    with pytest.raises(TopologyFileError, match=r"none\.yaml"):
        read_place(str(tmp_path / "none.yaml"), "n1")
