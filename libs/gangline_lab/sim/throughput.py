"""Speeds from a table of throughputs, as Gavel and Shockwave published them: steps per second by GPU type and job.

    {"v100": {"('ResNet-18 (batch size 64)', 1)": {"null": 57.7, "('LM (batch size 5)', 1)": [30.1, 12.2]}}}

"null" is the job alone; a pair is what both reach when they share a GPU. `v100_unconsolidated` is the same job spread
over several nodes. GPU types are compared in lower case.
"""

import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from gangline_core.spec import JobSpec, gpu_milli_wanted
from gangline_lab.rows import TraceError, unpacked
from gangline_lab.sim.batches import foreseen_s, stages
from gangline_lab.sim.courses import STEP_UNIT, UNIT, Course, Held, Leg, time_left_ms
from gangline_lab.sim.workload import Work

KEY = re.compile(r"\('(.+)', (\d{1,5})\)")
SPREAD = "_unconsolidated"
STEPS_PER_S_MAX = 1e9
"""Most steps in a second that are believed."""
GPU_MILLI = 1000


class Throughputs(Struct, frozen=True):
    """Steps per second by GPU type, then by (job type, GPUs)."""

    alone: dict[str, dict[tuple[str, int], float]]
    pairs: dict[str, dict[tuple[str, int], dict[tuple[str, int], tuple[float, float]]]]

    def among(self, models: Iterable[str]) -> "Throughputs":
        """The same for a cluster that has only these GPU models; all of it where the table knows none of them."""
        known = {name for model in models for name in (model.lower(), model.lower() + SPREAD)}
        if known.isdisjoint(self.alone):
            return self
        return Throughputs(
            alone={kind: rows for kind, rows in self.alone.items() if kind in known},
            pairs={kind: rows for kind, rows in self.pairs.items() if kind in known},
        )

    def course(self, spec: JobSpec, work: Work) -> Course:
        """The job's steps."""
        gpus = max(1, gpu_milli_wanted(spec) // GPU_MILLI)
        if work.mode and (kind := self.fastest(work, gpus)):
            return self._staged(kind, work, gpus)
        rates = {
            kind: round(rows[work.row, gpus] * STEP_UNIT / 1000)
            for kind, rows in self.alone.items()
            if (work.row, gpus) in rows
        }
        if not any(rates.values()):
            raise TraceError(f"no throughput of {work.row!r} on {gpus} GPUs", file="throughputs", line=0)
        return Steps(total=max(1, work.steps) * STEP_UNIT, rates=rates)

    def alone_ms(self, spec: JobSpec, work: Work) -> int:
        """Run time on the fastest type, undisturbed."""
        course = self.course(spec, work)
        gpus = max(1, gpu_milli_wanted(spec) // GPU_MILLI)
        kinds = [kind for kind in self.alone if not kind.endswith(SPREAD)]
        times = [
            time_left_ms(course, Held(size=gpus, gpus=gpus, per_node=(gpus,), model=kind), done=0)
            for kind in kinds
            if self.alone[kind].get((work.row, gpus))
        ]
        return min(times, default=1)

    def fastest(self, work: Work, gpus: int) -> str:
        """The GPU type on which the job goes fastest; empty when it is on none."""
        known = {
            kind: rows.get((work.row, gpus), 0.0) for kind, rows in self.alone.items() if not kind.endswith(SPREAD)
        }
        best = max(sorted(known), key=lambda kind: known[kind], default="")
        return best if known.get(best) else ""

    def _staged(self, kind: str, work: Work, gpus: int) -> Course:
        model = work.row.partition(" ")[0]

        def speed(batch_size: int, kind: str = kind) -> float:
            return self.alone.get(kind, {}).get((f"{model} (batch size {batch_size})", gpus), 0.0)

        done, legs, left = 0, [], []
        for stage in stages(work.mode, model, work.batch_size, gpus=gpus, steps=work.steps, speed=speed):
            left.append((done, round(stage.left_s * 1000)))
            done += max(1, round(stage.seconds * 1000)) * UNIT
            own = speed(stage.batch_size)
            legs.append((done, {name: round(UNIT * speed(stage.batch_size, name) / own) for name in self.alone}))
        return Staged(total=done, legs=tuple(legs), left=tuple(left))

    def foreseen_s(self, spec: JobSpec, work: Work) -> float:
        """Run time in s alone on the fastest type, as foreseen batch by batch (Shockwave, NSDI 2023)."""
        gpus = max(1, gpu_milli_wanted(spec) // GPU_MILLI)
        kind, model = self.fastest(work, gpus), work.row.partition(" ")[0]

        def speed(batch_size: int) -> float:
            return self.alone[kind].get((f"{model} (batch size {batch_size})", gpus), 0.0)

        return foreseen_s(work.mode, model, work.batch_size, gpus=gpus, steps=work.steps, speed=speed)

    def speeds(self, spec: JobSpec, work: Work) -> dict[str, float]:
        """Steps per second by GPU type, where the job can run."""
        gpus = max(1, gpu_milli_wanted(spec) // GPU_MILLI)
        return {
            kind: rows[work.row, gpus]
            for kind, rows in self.alone.items()
            if not kind.endswith(SPREAD) and rows.get((work.row, gpus))
        }


class Staged(Struct, frozen=True):
    """Training whose batch size changes: a unit is a part of a ms on the type that the job likes best."""

    total: int
    legs: tuple[tuple[int, dict[str, int]], ...]
    """Units after which each stage ends, and the speed in it by type."""
    left: tuple[tuple[int, int], ...] = ()
    """Units at which each stage begins, and the ms that are left then if its batch size stayed."""

    def stage(self, done: int) -> int:
        """Which stage is under way after so many units."""
        return min(bisect_right(self.legs, done, key=lambda leg: leg[0]), len(self.legs) - 1)

    def left_ms(self, done: int) -> int:
        """Time left on the type that the job likes best, if the present batch size stayed."""
        begun, left_ms = self.left[self.stage(done)]
        return max(0, left_ms - (done - begun) // UNIT)

    def leg(self, done: int, held: Held) -> Leg:
        """The stage under way."""
        until, rates = self.legs[self.stage(done)]
        kind = held.model.lower()
        spread = rates.get(kind + SPREAD) if len(held.per_node) > 1 else None
        return Leg(until, max(1, spread or rates.get(kind, 0)))


class Steps(Struct, frozen=True):
    """So many steps; the speed depends on the GPU type, and on whether the GPUs are on one node."""

    total: int
    rates: dict[str, int]

    def leg(self, done: int, held: Held) -> Leg:
        """One speed from beginning to end."""
        kind = held.model.lower()
        spread = self.rates.get(kind + SPREAD) if len(held.per_node) > 1 else None
        return Leg(self.total, max(1, spread or self.rates.get(kind, 0)))


def read_throughputs(path: Path) -> Throughputs:
    """The table in a JSON file; `.gz` is unpacked.

    Raises:
        TraceError: it is no such table; says which entry.
    """
    try:
        raw = msgspec.json.decode(unpacked(path), type=dict[str, dict[str, dict[str, float | list[float]]]])
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise TraceError(f"no table of throughputs: {error}", file=path.name, line=0) from error
    alone: dict[str, dict[tuple[str, int], float]] = {}
    pairs: dict[str, dict[tuple[str, int], dict[tuple[str, int], tuple[float, float]]]] = {}
    for kind, rows in raw.items():
        for name, cells in rows.items():
            key = _key(name, path.name, kind)
            for other, value in cells.items():
                for one in value if isinstance(value, list) else (value,):
                    if not 0 <= one <= STEPS_PER_S_MAX:
                        problem = (
                            f"{name} beside {other}: expected from 0 to {STEPS_PER_S_MAX:g} steps/s, found {one:g}"
                        )
                        raise TraceError(problem, file=path.name, line=0, column=kind)
                if other == "null" and isinstance(value, float | int):
                    alone.setdefault(kind.lower(), {})[key] = float(value)
                elif isinstance(value, list) and len(value) == 2:
                    both = pairs.setdefault(kind.lower(), {}).setdefault(key, {})
                    both[_key(other, path.name, kind)] = (value[0], value[1])
                else:
                    problem = f"{name} beside {other}: expected one number alone or two of a pair"
                    raise TraceError(problem, file=path.name, line=0, column=kind)
    return Throughputs(alone=alone, pairs=pairs)


def _key(name: str, file: str, kind: str) -> tuple[str, int]:
    found = KEY.fullmatch(name)
    if found is None:
        raise TraceError(f"expected ('job type', GPUs), found {name!r}", file=file, line=0, column=kind)
    return found[1], int(found[2])
