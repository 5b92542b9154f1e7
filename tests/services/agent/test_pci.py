"""Cards below one PCIe switch are known by it, GPUs and network cards alike."""

from pathlib import Path

from gangline_agent.pci import UNKNOWN, network_cards, socket_of, switch_of


def device(root: Path, *steps: str) -> Path:
    """A device of the kernel's tree below these bridges."""
    folder = root.joinpath("pci0000:15", *steps)
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text("1\n")
    return folder


def test_cards_of_one_switch_share_its_number_and_others_do_not(tmp_path: Path) -> None:
    port, upstream, other = "0000:15:01.0", "0000:16:00.0", "0000:26:00.0"
    gpu = device(tmp_path, port, upstream, "0000:17:00.0", "0000:18:00.0")
    card = device(tmp_path, port, upstream, "0000:17:01.0", "0000:19:00.0")
    far = device(tmp_path, "0000:25:01.0", other, "0000:27:00.0", "0000:28:00.0")
    assert switch_of(gpu) == switch_of(card) != switch_of(far)
    assert UNKNOWN not in (switch_of(gpu), switch_of(far))
    assert socket_of(gpu) == 1


def test_a_card_on_the_root_port_or_one_that_is_not_there_has_no_switch(tmp_path: Path) -> None:
    assert switch_of(device(tmp_path, "0000:15:01.0", "0000:16:00.0")) == UNKNOWN
    assert switch_of(tmp_path / "nowhere") == UNKNOWN
    assert socket_of(tmp_path / "nowhere") == 0


def test_network_cards_are_named_with_their_switch(tmp_path: Path) -> None:
    card = device(tmp_path, "0000:15:01.0", "0000:16:00.0", "0000:17:01.0", "0000:19:00.0")
    (tmp_path / "class" / "mlx5_0").mkdir(parents=True)
    (tmp_path / "class" / "mlx5_0" / "device").symlink_to(card)
    (nic,) = network_cards(tmp_path / "class")
    assert (nic.name, nic.socket, nic.switch) == ("mlx5_0", 1, switch_of(card))
    assert network_cards(tmp_path / "none") == ()
