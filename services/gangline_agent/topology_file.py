"""Where a machine stands and how its GPUs hang together, as one file of the administrator says for many machines.

A YAML or JSON file with a list `nodes`. Each entry says for which machines it speaks (`names`, with * and ? and [a-z])
and any of: `labels` (whatever names a rack, a block or another level), `islands`, `switches`, `sockets` (one number per
GPU, in the order of their indexes) and `nics`. Where several entries speak of one machine, later ones go before.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Gpu, Nic

BYTES_MAX = 4 << 20


class TopologyFileError(Exception):
    """The file cannot be read; the message says where."""


class Place(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said of a machine; empty where nothing is."""

    names: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    islands: tuple[int, ...] = ()
    switches: tuple[int, ...] = ()
    sockets: tuple[int, ...] = ()
    nics: tuple[Nic, ...] = ()

    def on(self, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """The GPUs with what is said of them; what the driver tells of the others stays."""
        for name, numbers in (("island", self.islands), ("switch", self.switches), ("socket", self.sockets)):
            said = dict(enumerate(numbers))
            gpus = tuple(replace(gpu, **{name: said.get(gpu.index, getattr(gpu, name))}) for gpu in gpus)
        return gpus


def read_place(path: str, node: str) -> Place:
    """What the file says of this machine.

    Raises:
        TopologyFileError: no such file, or it does not describe places.
    """
    found = Place()
    for number, entry in enumerate(_entries(path), start=1):
        try:
            said = msgspec.convert(entry, type=Place)
        except msgspec.ValidationError as error:
            raise TopologyFileError(f"{path}: entry {number}: {error}") from error
        if not said.names:
            raise TopologyFileError(f"{path}: entry {number}: says for no machine (`names`)")
        if any(fnmatchcase(node, name) for name in said.names):
            found = _together(found, said)
    return found


def _entries(path: str) -> list[object]:
    try:
        file = Path(path).expanduser()
        if file.stat().st_size > BYTES_MAX:
            raise TopologyFileError(f"{path}: larger than {BYTES_MAX >> 20} MiB")
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise TopologyFileError(f"{path}: {error}") from error
    entries = raw.get("nodes") if isinstance(raw, Mapping) else None
    if not isinstance(entries, list):
        raise TopologyFileError(f"{path}: a list `nodes` was expected")
    return entries


def _together(before: Place, said: Place) -> Place:
    """Both, the later one first where both say something."""
    return Place(
        labels={**before.labels, **said.labels},
        islands=said.islands or before.islands,
        switches=said.switches or before.switches,
        sockets=said.sockets or before.sockets,
        nics=said.nics or before.nics,
    )
