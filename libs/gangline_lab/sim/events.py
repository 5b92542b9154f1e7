"""What is going to happen when: the simulation's calendar. Things of one moment come in a fixed order."""

from heapq import heappop, heappush

from msgspec import Struct

from gangline_core.facts import ExitCause
from gangline_core.ids import JobId, NodeId, TaskId


class End(Struct, frozen=True, gc=False):
    """A job's work is done, or its time is up, if its run has this version then."""

    job: JobId
    version: int
    cause: ExitCause


class Turn(Struct, frozen=True, gc=False):
    """A node fails or comes back."""

    node: NodeId
    fails: bool


class Stop(Struct, frozen=True, gc=False):
    """A task that was told to stop is gone."""

    task: TaskId


class Still(Struct, frozen=True, gc=False):
    """A task that was paused stands still."""

    task: TaskId


class Start(Struct, frozen=True, gc=False):
    """A placed task starts."""

    task: TaskId


class Arrive(Struct, frozen=True, gc=False):
    """The job of this number arrives."""

    index: int


class Cancel(Struct, frozen=True, gc=False):
    """The user of the job of this number takes it back, if it still waits."""

    index: int


class Tell(Struct, frozen=True, gc=False):
    """Something else comes from outside: the input of this number."""

    index: int


class Look(Struct, frozen=True, gc=False):
    """Time alone changes something: a round may come out differently."""


Event = End | Turn | Stop | Still | Start | Arrive | Cancel | Tell | Look


class Moment:
    """Everything that happens at one time, by kind; each kind in the order in which it was entered."""

    __slots__ = ("arrivals", "at", "cancels", "ends", "looks", "starts", "stills", "stops", "tells", "turns")

    def __init__(self, at: int) -> None:
        """Nothing yet."""
        self.at = at
        self.turns: list[Turn] = []
        self.ends: list[End] = []
        self.stops: list[TaskId] = []
        self.stills: list[TaskId] = []
        self.arrivals: list[int] = []
        self.cancels: list[int] = []
        self.tells: list[int] = []
        self.starts: list[TaskId] = []
        self.looks = False

    def add(self, event: Event) -> None:
        """One more thing happens."""
        match event:
            case Turn():
                self.turns.append(event)
            case End():
                self.ends.append(event)
            case Stop():
                self.stops.append(event.task)
            case Still():
                self.stills.append(event.task)
            case Arrive():
                self.arrivals.append(event.index)
            case Cancel():
                self.cancels.append(event.index)
            case Tell():
                self.tells.append(event.index)
            case Start():
                self.starts.append(event.task)
            case Look():
                self.looks = True


class Events:
    """The calendar."""

    def __init__(self) -> None:
        """Empty."""
        self._heap: list[tuple[int, int, Event]] = []
        self._count = 0
        self._looks: set[int] = set()

    def __bool__(self) -> bool:
        """Whether anything is still to come."""
        return bool(self._heap)

    def enter(self, at: int, event: Event) -> None:
        """This happens then."""
        self._count += 1
        heappush(self._heap, (at, self._count, event))

    def look(self, at: int) -> None:
        """Somebody must look then; said once is enough."""
        if at not in self._looks:
            self._looks.add(at)
            self.enter(at, Look())

    def next_ms(self) -> int:
        """When something happens next; there must be something."""
        return self._heap[0][0]

    def take(self) -> Moment:
        """Everything of the next time at which something happens."""
        heap = self._heap
        moment = Moment(heap[0][0])
        while heap and heap[0][0] == moment.at:
            moment.add(heappop(heap)[2])
        if moment.looks:
            self._looks.discard(moment.at)
        return moment
