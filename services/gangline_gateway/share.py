"""How much of the gateway's time one user may take with questions: a burst, then a part of what passes.

Some answers are work in proportion to the queue, and while one is worked out all others wait. Without a bound, one
user's dry runs of a long queue would be everybody's minutes. What is taken is time of the loop, whatever a question
waits for besides. Changes do not count: groups have rates and caps of their own for submits. Nor does sending what
happens to those who follow it: how much there is of it is not theirs to say, and how many streams they have is bounded.
All tokens of a user are one here, as heads make as many as they like.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from gangline_gateway.access import Caller
from gangline_gateway.problems import ProblemError
from gangline_kit.clock import Clock
from gangline_wire.limits import most

T = TypeVar("T")

PART = 0.2
"""So much of all time one user may take for good."""
KEPT = 4096
"""Users that are remembered until it is looked which of them owe nothing any more."""


class Shares:
    """What each user has taken lately."""

    def __init__(self, clock: Clock) -> None:
        """Nobody has taken anything."""
        self._clock = clock
        self._taken: dict[str, tuple[float, float]] = {}
        """By user, the seconds taken and not paid back by the time that passed, and when that was."""

    @property
    def remembered(self) -> int:
        """Users that are not forgotten yet."""
        return len(self._taken)

    def check(self, caller: Caller) -> None:
        """Administrators may always ask: they must see what goes on when everybody looks.

        Raises:
            ProblemError: the user took a burst, and too little time has passed since.
        """
        if self.has_some(caller):
            return
        raise ProblemError(
            "too_many",
            f"Questions of {caller.user} took too much of the gateway's time (question_s).",
            retry_after_s=max(1.0, (self._owed_s(caller.user) - most("question_s")) / PART),
        )

    def has_some(self, caller: Caller) -> bool:
        """True while the user may take more."""
        return caller.is_admin or self._owed_s(caller.user) < most("question_s")

    def timed(
        self, caller: Caller, work: Coroutine[Any, Any, T], *, counts: Callable[[], bool] = lambda: True
    ) -> Awaitable[T]:
        """The same work, which the user pays for, but for those steps at whose end it does not count."""

        def took(seconds: float) -> None:
            if seconds > 0 and counts():
                self._take(caller.user, seconds)

        return _Timed(work, self._clock, took)

    def _take(self, user: str, seconds: float) -> None:
        self._taken[user] = (self._owed_s(user) + seconds, self._clock.monotonic_s())
        if len(self._taken) > KEPT:
            self._taken = {one: taken for one, taken in self._taken.items() if self._owed_s(one) > 0}

    def _owed_s(self, user: str) -> float:
        taken_s, at_s = self._taken.get(user, (0.0, 0.0))
        return max(0.0, taken_s - PART * (self._clock.monotonic_s() - at_s))


class _Timed(Generic[T]):
    """Awaits a coroutine, and tells after each of its steps how long the loop was at it."""

    def __init__(self, work: Coroutine[Any, Any, T], clock: Clock, took: Callable[[float], None]) -> None:
        self._work = work
        self._clock = clock
        self._took = took

    def __await__(self) -> Generator[Any, Any, T]:
        answer: Any = None
        error: BaseException | None = None
        while True:
            begun_s = self._clock.monotonic_s()
            try:
                waits_for = self._work.send(answer) if error is None else self._work.throw(error)
            except StopIteration as end:
                found: T = end.value
                return found
            finally:
                self._took(self._clock.monotonic_s() - begun_s)
            try:
                answer, error = (yield waits_for), None
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as thrown:  # noqa: BLE001 - it is handed on to the work
                error = thrown
