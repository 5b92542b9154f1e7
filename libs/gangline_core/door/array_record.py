"""Many equal jobs as one record: which elements there are, which are open, and how the others ended.

An element is an ordinary job with a number of its own: those of array 42 are 43, 44, ... in the order of its indexes,
and people write them 42_<index>. Only elements that may start next or run exist as jobs; of the others the record
holds one letter each.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gangline_core.door.edits import JobEdit, edited
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.reasons import Reason
from gangline_core.spec import ArraySpec, JobSpec

PENDING = "."
KEPT = "h"
"""Not in the queue yet, and held by itself."""
OPEN = "o"
LETTERS = {
    JobState.SUCCEEDED: "s",
    JobState.FAILED: "f",
    JobState.CANCELLED: "c",
    JobState.TIMED_OUT: "t",
    JobState.LOST: "l",
}
"""How an ended element is written in the record."""
ENDED_AS = {letter: state for state, letter in LETTERS.items()}


class ArrayRecord(Struct, frozen=True, omit_defaults=True):
    """One array as the fold knows it."""

    id: JobId
    spec: JobSpec
    submitted_ms: int
    marks: str
    """One letter per element, in the order of the indexes."""
    submitted_by: str = ""
    trace: str = ""
    next: int = 0
    """Position before which no element is pending."""
    held: Reason | None = None
    """Why no further element enters the queue."""
    ended_ms: int = 0
    kept_by: dict[int, str] = {}
    """Who held an element that is not in the queue yet, by position."""
    edits: dict[int, JobEdit] = {}
    """Terms of elements that are not in the queue yet, where they differ from the array's, by position."""
    edited: bool = False
    """Its terms are not all as they were asked for."""
    over: Reason | None = None
    """Why elements ended that never came into the queue, unless somebody took them back."""

    @property
    def size(self) -> int:
        """How many elements it has."""
        return len(self.marks)

    @property
    def open(self) -> int:
        """Elements that exist as unfinished jobs."""
        return self.marks.count(OPEN)

    @property
    def pending(self) -> int:
        """Elements that are not in the queue yet."""
        return self.marks.count(PENDING) + self.marks.count(KEPT)

    @property
    def at_most(self) -> int:
        """Elements that may be open at once; 0 means no cap."""
        return self.spec.array.at_most if self.spec.array else 0

    def element(self, position: int) -> JobId:
        """The number of the element at a position."""
        return JobId(self.id + 1 + position)

    def position(self, job: int) -> int:
        """The position of an element's number."""
        return job - self.id - 1

    def index(self, position: int) -> int:
        """The index at a position."""
        return index_at(self.spec.array, position) if self.spec.array else 0

    def element_spec(self, position: int) -> JobSpec:
        """What the element at a position asks for."""
        return edited(self.spec, self.edits[position]) if position in self.edits else self.spec

    def marked(self, position: int, letter: str) -> str:
        """The letters with one of them changed."""
        return f"{self.marks[:position]}{letter}{self.marks[position + 1 :]}"


class ArrayBook:
    """Derived: the arrays by element, and the open elements of each."""

    def __init__(self) -> None:
        """No array yet."""
        self._ids: list[JobId] = []
        self.open: dict[JobId, dict[JobId, None]] = {}
        """Unfinished elements per array."""

    def enter(self, array: JobId) -> None:
        """A new array; numbers only grow."""
        self._ids.append(array)

    def leave(self, array: JobId) -> None:
        """Forget an array."""
        self._ids.remove(array)
        self.open.pop(array, None)

    def before(self, job: int) -> JobId | None:
        """The last array whose number is below the job's."""
        place = bisect_right(self._ids, job - 1)
        return self._ids[place - 1] if place else None


def array_size(array: ArraySpec) -> int:
    """How many indexes there are."""
    return sum((last - first) // step + 1 for first, last, step in array.ranges)


def index_at(array: ArraySpec, position: int) -> int:
    """The index at a position.

    Raises:
        IndexError: there are not so many.
    """
    for first, last, step in array.ranges:
        count = (last - first) // step + 1
        if position < count:
            return first + position * step
        position -= count
    raise IndexError(position)


def position_of(array: ArraySpec, index: int) -> int | None:
    """The position of an index; None when the array has no such index."""
    before = 0
    for first, last, step in array.ranges:
        if first <= index <= last:
            return before + (index - first) // step if (index - first) % step == 0 else None
        before += (last - first) // step + 1
    return None


def ranges_text(ranges: Iterable[tuple[int, int, int]]) -> str:
    """As people write it: "0-9,12,20-30:5"."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}" + (f":{step}" if step > 1 else "")
        for first, last, step in ranges
    )


def array_text(array: ArraySpec) -> str:
    """The indexes and the cap: "0-999%10"."""
    return ranges_text(array.ranges) + (f"%{array.at_most}" if array.at_most else "")


def runs(indexes: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """Ascending indexes as ranges of neighbours."""
    first = last = None
    for index in indexes:
        if first is None or last is None:
            first = last = index
        elif index == last + 1:
            last = index
        else:
            yield first, last, 1
            first = last = index
    if first is not None and last is not None:
        yield first, last, 1
