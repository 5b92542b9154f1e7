"""How fast a job's work goes on under an allocation: plain run time, or steps by a table of throughputs.

Work is counted in whole units and speed in units per ms, so that equal runs come out equal to the last bit. One ms at
the speed that a plain job's trace was recorded at is `UNIT` units; one step of a table is `STEP_UNIT` units.
"""

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from gangline_core.spec import JobSpec
from gangline_lab.sim.conditions import Elastic
from gangline_lab.sim.workload import Work

UNIT = 1_000_000
STEP_UNIT = 1_000_000_000


class Held(Struct, frozen=True, gc=False):
    """What a running job holds, as far as its speed may depend on it."""

    size: int
    """Tasks."""
    gpus: int
    """GPUs, shares counted as one."""
    per_node: tuple[int, ...]
    """GPUs on each of its nodes, in the order of ranks."""
    model: str
    """GPU model of its first task."""


class Leg(Struct, frozen=True, gc=False):
    """A stretch of work at one speed: until so many units are done."""

    until: int
    rate: int


class Course(Protocol):
    """A kind of work."""

    @property
    def total(self) -> int:
        """All units of it."""

    def leg(self, done: int, held: Held) -> Leg:
        """The speed after `done` units under this allocation, and up to where it holds; `until` is beyond `done`."""


class Plain(Struct, frozen=True):
    """A run time at the size asked for; other sizes by Amdahl's law."""

    total: int
    asked: int
    """Tasks asked for."""
    serial: float

    def leg(self, done: int, held: Held) -> Leg:
        """One speed from beginning to end."""
        if held.size == self.asked:
            return Leg(self.total, UNIT)
        speed = amdahl(held.size, self.serial) / amdahl(self.asked, self.serial)
        return Leg(self.total, max(1, round(speed * UNIT)))


def amdahl(size: int, serial: float) -> float:
    """Speed of so many tasks over one, when this part of the work cannot be shared."""
    return 1 / (serial + (1 - serial) / max(1, size))


class Courses(Protocol):
    """Makes the course of each job."""

    def course(self, spec: JobSpec, work: Work) -> Course:
        """How this job's work goes on."""

    def alone_ms(self, spec: JobSpec, work: Work) -> int:
        """Its run time at the size it asks for, undisturbed on the machines it likes best."""

    def among(self, models: Iterable[str]) -> "Courses":
        """The same for a cluster that has only these GPU models."""

    def speeds(self, spec: JobSpec, work: Work) -> dict[str, float]:
        """Its speed by GPU model, as far as one differs from another; empty when none does."""


class PlainCourses(Struct, frozen=True):
    """Every job by its run time."""

    elastic: Elastic = Elastic()

    def course(self, spec: JobSpec, work: Work) -> Course:
        """The job's run time."""
        asked = sum(role.count for role in spec.roles)
        return Plain(total=max(1, work.run_ms) * UNIT, asked=asked, serial=self.elastic.serial)

    def alone_ms(self, spec: JobSpec, work: Work) -> int:
        """What its trace says."""
        return work.run_ms

    def among(self, models: Iterable[str]) -> "PlainCourses":
        """A trace of run times knows no models."""
        return self

    def speeds(self, spec: JobSpec, work: Work) -> dict[str, float]:
        """A trace of run times knows no models."""
        return {}


def advance(course: Course, held: Held, *, done: int, ms: int, part_milli: int = 1000) -> int:
    """Units done after so many further ms, when neighbours leave `part_milli` thousandths of the speed."""
    while ms > 0 and done < course.total:
        leg = course.leg(done, held)
        rate = max(1, leg.rate * part_milli // 1000)
        needed = -(-(leg.until - done) // rate)
        if needed > ms:
            return done + rate * ms
        done, ms = leg.until, ms - needed
    return min(done, course.total)


def time_left_ms(course: Course, held: Held, *, done: int, part_milli: int = 1000) -> int:
    """Ms until all of it is done, at this allocation."""
    ms = 0
    while done < course.total:
        leg = course.leg(done, held)
        rate = max(1, leg.rate * part_milli // 1000)
        ms += -(-(leg.until - done) // rate)
        done = leg.until
    return ms
