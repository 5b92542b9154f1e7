"""Speeds from profiles of goodput, as Pollux (OSDI 2021) published them: throughput times statistical efficiency.

A folder holds one folder for each application, with
`placements.csv`  placement (GPUs on each node, as digits), local_bsz, step_time, sync_time (seconds),
`scalability.csv` num_nodes, num_replicas, local_bsz, step_time, sync_time, and
`validation-B.csv` for each batch size B: progress (examples over the initial batch size) after each epoch, iteration,
                  metric, grad_sqr, grad_var.

Work is progress. A job with batch size M (its own, fixed) on K replicas takes local batches of ceil(M / K), split into
steps of accumulation where they are larger than profiled. Efficiency is (phi + M0) / (phi + M) with the gradient noise
scale phi = M0 * var / sqr of its epoch; goodput is efficiency over step time, in progress per second.
"""

from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from math import ceil
from pathlib import Path

from msgspec import Struct

from gangline_core.spec import JobSpec, task_count
from gangline_lab.rows import TraceError, read_table
from gangline_lab.sim.courses import STEP_UNIT, Course, Held, Leg, time_left_ms
from gangline_lab.sim.workload import Work

EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
"""Epochs after which each application of the published set is done; others run as many as were validated."""
LOCAL_MAX = {"yolov3": 8}
"""Largest local batch where it is smaller than what was profiled."""
NODES_PROFILED = 16
EPSILON = 1e-8
STEP_S_MIN = 1e-6
"""Shortest step that is believed."""


class Epochs(Struct, frozen=True):
    """What was measured at one batch size, by epoch."""

    progress: tuple[float, ...]
    grad_sqr: tuple[float, ...]
    grad_var: tuple[float, ...]


class Application:
    """One application's profile."""

    def __init__(self, folder: Path) -> None:
        """Reads the folder.

        Raises:
            TraceError: with line and column.
        """
        self.name = folder.name
        self.placements: dict[tuple[int, ...], list[tuple[int, float, float]]] = {}
        for row in read_table(folder / "placements.csv", ("placement", "local_bsz", "step_time", "sync_time")):
            digits = tuple(int(digit) for digit in str(row.whole("placement", least=1)))
            point = (
                row.whole("local_bsz", least=1),
                row.number("step_time", least=STEP_S_MIN),
                row.number("sync_time"),
            )
            self.placements.setdefault(digits, []).append(point)
        for points in self.placements.values():
            points.sort()
        columns = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
        self.scalability = [
            (
                row.whole("num_nodes"),
                row.whole("num_replicas"),
                row.whole("local_bsz"),
                row.number("step_time", least=STEP_S_MIN),
                row.number("sync_time"),
            )
            for row in read_table(folder / "scalability.csv", columns)
        ]
        self.validation = {_size(path): _epochs(path) for path in sorted(folder.glob("validation-*.csv"))}
        if not self.validation or not self.placements:
            raise TraceError("has no placements or no validated batch sizes", file=folder.name, line=0)
        self.sizes = sorted(self.validation)
        self.first_batch, self.batch_max = self.sizes[0], self.sizes[-1]
        locals_known = [point[0] for points in self.placements.values() for point in points]
        self.local_min = min(locals_known)
        self.local_max = LOCAL_MAX.get(self.name, max(locals_known))
        fewest = min(len(own.progress) for own in self.validation.values())
        self.epochs = EPOCHS.get(self.name) or fewest
        if self.epochs > fewest:
            problem = f"a batch size has {fewest} validated epochs of {self.epochs}"
            raise TraceError(problem, file=folder.name, line=0)
        self.ends = [
            round(STEP_UNIT * min(own.progress[epoch] for own in self.validation.values()))
            for epoch in range(self.epochs)
        ]
        """Work units done after each epoch."""

    def local(self, batch_size: int, replicas: int) -> tuple[int, int]:
        """Samples of one step on one replica, and further steps of accumulation."""
        share = ceil(batch_size / replicas - EPSILON)
        steps = ceil(share / self.local_max - EPSILON) - 1
        if replicas == 1 and batch_size > self.first_batch:
            steps = max(1, steps)
        own = ceil(share / (steps + 1) - EPSILON)
        return min(own, self.batch_max // (replicas * (steps + 1))), steps

    def goodput(self, per_node: tuple[int, ...], batch_size: int, epoch: int) -> float:
        """Progress per second in this epoch."""
        replicas = sum(per_node)
        own, steps = self.local(batch_size, replicas)
        total = replicas * own * (steps + 1)
        step_s, sync_s = self.times(per_node, own)
        sqr, var = self.gradient(total, epoch)
        if not sqr and not var:
            raise TraceError(f"no gradient was measured for batches of {total} samples", file=self.name, line=0)
        gain = (var + sqr) / (var * self.first_batch / total + sqr)
        return gain / (step_s + (step_s - sync_s) * steps)

    def gradient(self, batch_size: int, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient, between the validated batch sizes."""
        place = bisect_left(self.sizes, batch_size)
        high = self.sizes[min(place, len(self.sizes) - 1)]
        low = high if high == batch_size or place == 0 else self.sizes[place - 1]
        a, b = self.validation[low], self.validation[high]
        part = 0.0 if low == high else (batch_size - low) / (high - low)
        return (
            (1 - part) * a.grad_sqr[epoch] + part * b.grad_sqr[epoch],
            (1 - part) * a.grad_var[epoch] + part * b.grad_var[epoch],
        )

    def times(self, per_node: tuple[int, ...], local_bsz: int) -> tuple[float, float]:
        """Seconds of a step and of its synchronisation on so many GPUs of each node."""
        turned = min(per_node[k:] + per_node[:k] for k in range(len(per_node)))
        points = self.placements.get(turned)
        if points is not None:
            return _between(points, local_bsz)
        step_s, sync_s = self._surface()((min(len(turned), NODES_PROFILED), sum(turned), local_bsz))
        return float(step_s), float(sync_s)

    def _surface(self) -> "Surface":
        return _surface(self)


class Surface:
    """Times of placements that were not profiled, linear between the profiled (nodes, replicas, batch)."""

    def __init__(self, application: Application) -> None:
        """Builds the triangulation once."""
        from scipy.interpolate import LinearNDInterpolator  # type: ignore[import-untyped]  # SciPy ships no types

        sums: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
        for digits, points in application.placements.items():
            for local_bsz, step_s, sync_s in points:
                sums.setdefault((len(digits), sum(digits), local_bsz), []).append((step_s, sync_s))
        where = [list(key) for key in sorted(sums)]
        what = [[sum(v[k] for v in sums[key]) / len(sums[key]) for k in (0, 1)] for key in sorted(sums)]
        for nodes, replicas, local_bsz, step_s, sync_s in application.scalability:
            where.append([nodes, replicas, local_bsz])
            what.append([step_s, sync_s])
        self._name = application.name
        self._inside = LinearNDInterpolator(where, what)

    def __call__(self, point: tuple[int, int, int]) -> tuple[float, float]:
        """Seconds of step and synchronisation."""
        step_s, sync_s = self._inside([point])[0]
        if step_s != step_s:
            nodes, replicas, local_bsz = point
            problem = f"nothing profiled around {replicas} replicas on {nodes} nodes with {local_bsz} samples each"
            raise TraceError(problem, file=self._name, line=0)
        return step_s, sync_s


@lru_cache(maxsize=64)
def _surface(application: Application) -> Surface:
    return Surface(application)


class Profiles:
    """The profiles of several applications, as courses."""

    def __init__(self, applications: dict[str, Application]) -> None:
        """By name."""
        self.applications = applications

    def course(self, spec: JobSpec, work: Work) -> Course:
        """The job's progress."""
        application = self.applications.get(work.row)
        if application is None:
            raise TraceError(f"no profile of application {work.row!r}", file="profiles", line=0)
        return Progressing(application, work.batch_size)

    def alone_ms(self, spec: JobSpec, work: Work) -> int:
        """Run time as asked for, on as few nodes of four GPUs as possible."""
        replicas = task_count(spec)
        per_node = tuple(min(4, replicas - k) for k in range(0, replicas, 4))
        held = Held(size=replicas, gpus=replicas, per_node=per_node, model="")
        return time_left_ms(self.course(spec, work), held, done=0)

    def among(self, models: Iterable[str]) -> "Profiles":
        """Profiles were taken on one model."""
        return self

    def speeds(self, spec: JobSpec, work: Work) -> dict[str, float]:
        """Profiles were taken on one model."""
        return {}


class Progressing:
    """The progress of one job with its own batch size, epoch by epoch."""

    def __init__(self, application: Application, batch_size: int) -> None:
        """Nothing remembered yet."""
        self._application = application
        self._batch_size = batch_size
        self.total = application.ends[-1]
        self._rates: dict[tuple[int, tuple[int, ...]], int] = {}

    def leg(self, done: int, held: Held) -> Leg:
        """The goodput of the epoch that is under way."""
        ends = self._application.ends
        epoch = bisect_left(ends, done + 1)
        key = (epoch, held.per_node)
        rate = self._rates.get(key)
        if rate is None:
            goodput = self._application.goodput(held.per_node, self._batch_size, epoch)
            rate = self._rates[key] = max(1, round(goodput * STEP_UNIT / 1000))
        return Leg(ends[epoch], rate)


def read_profiles(folder: Path) -> Profiles:
    """All applications whose folders lie here.

    Raises:
        TraceError: there are none, or a file is wrong (with line and column).
    """
    folders = sorted(path.parent for path in folder.glob("*/placements.csv"))
    if not folders:
        raise TraceError("no folder with a placements.csv is here", file=str(folder), line=0)
    return Profiles({path.name: Application(path) for path in folders})


def _size(path: Path) -> int:
    """The batch size that a file is of, by its name."""
    digits = path.stem.partition("-")[2]
    if not (digits.isascii() and digits.isdecimal() and 0 < len(digits) < 10 and int(digits)):
        raise TraceError("expected a name such as validation-128.csv", file=path.name, line=0)
    return int(digits)


def _epochs(path: Path) -> Epochs:
    rows = list(read_table(path, ("progress", "grad_sqr", "grad_var")))
    return Epochs(
        progress=tuple(row.number("progress") for row in rows),
        grad_sqr=tuple(row.number("grad_sqr", most=1e300) for row in rows),
        grad_var=tuple(row.number("grad_var", most=1e300) for row in rows),
    )


def _between(points: list[tuple[int, float, float]], local_bsz: int) -> tuple[float, float]:
    place = bisect_left(points, (local_bsz, -1.0, -1.0))
    high = points[min(place, len(points) - 1)]
    if high[0] == local_bsz or place in (0, len(points)):
        return high[1], high[2]
    low = points[place - 1]
    part = (local_bsz - low[0]) / (high[0] - low[0])
    return (1 - part) * low[1] + part * high[1], (1 - part) * low[2] + part * high[2]
