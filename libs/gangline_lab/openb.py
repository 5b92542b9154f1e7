"""The openb node list: GPU machines of a production cluster (data/README.md has source, licence and columns)."""

from pathlib import Path

from msgspec import Struct

from gangline_lab.rows import Row, TraceError, read_rows

NODE_LIST = Path(__file__).parent / "data" / "openb_nodes.csv"
"""The whole list of 1,213 machines."""

COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
GPUS_MAX = 64
"""Most GPUs of one machine that are believed."""

MODELS = frozenset({"A10", "G2", "G3", "P100", "T4", "V100M16", "V100M32"})
"""GPU models of the list; G2 and G3 are models that its publisher did not name."""


class Machine(Struct, frozen=True):
    """One machine of the list."""

    name: str
    cpu_milli: int
    """Thousandths of a core."""
    memory_mib: int
    gpus: int
    model: str


def read_machines(path: Path = NODE_LIST) -> tuple[Machine, ...]:
    """All machines in the order of the list.

    Raises:
        TraceError: with line and column.
    """
    machines: dict[str, Machine] = {}
    lines: dict[str, int] = {}
    for row in read_rows(path, COLUMNS):
        machine = _machine(row)
        if machine.name in lines:
            first = lines[machine.name]
            raise TraceError(f"{machine.name} stands on line {first} already", file=path.name, line=row.line)
        machines[machine.name], lines[machine.name] = machine, row.line
    if not machines:
        raise TraceError("has no machines", file=path.name, line=1)
    return tuple(machines.values())


def _machine(row: Row) -> Machine:
    model = row.text("model")
    if model not in MODELS:
        raise row.error("model", f"unknown GPU model {model!r}; known are {', '.join(sorted(MODELS))}")
    return Machine(
        name=row.text("sn"),
        cpu_milli=row.whole("cpu_milli", least=1),
        memory_mib=row.whole("memory_mib", least=1),
        gpus=row.whole("gpu", least=1, most=GPUS_MAX),
        model=model,
    )
