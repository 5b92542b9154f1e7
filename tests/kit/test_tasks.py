"""Background tasks with one owner."""

import asyncio

import pytest

from gangline_kit.errors import PermanentError, TemporaryError, flat
from gangline_kit.tasks import Tasks, alone, heed_cancellation


async def test_closing_ends_every_task_and_waits_for_its_clean_up() -> None:
    tasks = Tasks()
    cleaned: list[int] = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(number)

    for number in range(3):
        tasks.spawn(work(number), name=f"work {number}")
    await asyncio.sleep(0)
    await tasks.close()
    assert sorted(cleaned) == [0, 1, 2]
    assert len(tasks) == 0


async def test_a_failed_task_is_reported_once_and_remembered() -> None:
    reported: list[BaseException] = []
    tasks = Tasks(reported.append)

    async def fail() -> None:
        raise ValueError("broken")

    task = tasks.spawn(fail(), name="fail")
    await asyncio.wait((task,))
    await asyncio.sleep(0)
    assert [str(error) for error in reported] == ["broken"]
    with pytest.raises(PermanentError, match="broken"):
        tasks.check()


async def test_draining_lets_tasks_finish_but_not_for_ever() -> None:
    tasks = Tasks()
    finished: list[str] = []

    async def quick() -> None:
        await asyncio.sleep(0)
        finished.append("quick")

    async def endless() -> None:
        await asyncio.Event().wait()

    tasks.spawn(quick(), name="quick")
    tasks.spawn(endless(), name="endless")
    await tasks.drain(0.01)
    assert finished == ["quick"]
    await tasks.close()


def test_errors_deep_inside_groups_are_found() -> None:
    inner = ExceptionGroup("inner", [ValueError("a"), ExceptionGroup("innermost", [KeyError("b")])])
    found = list(flat(ExceptionGroup("outer", [inner, TypeError("c")])))
    assert [type(error) for error in found] == [ValueError, KeyError, TypeError]


async def test_a_cancellation_that_meets_an_error_is_heeded_afterwards() -> None:
    went_on: list[str] = []

    async def fails() -> None:
        raise TemporaryError("lost")

    async def work() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
                try:
                    await asyncio.Event().wait()
                finally:
                    # Told to end while the group ends because of the error.
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
        except* TemporaryError:
            pass
        heed_cancellation()
        went_on.append("on")

    task = asyncio.create_task(work())
    await asyncio.wait((task,))
    assert task.cancelled()
    assert not went_on


async def test_a_group_that_failed_while_ending_does_not_look_like_our_own_cancellation() -> None:
    async def fails() -> None:
        raise TemporaryError("lost")

    async def group_of_one() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    try:
        await alone(group_of_one(), name="group")
    except* TemporaryError:
        pass
    heed_cancellation()


async def test_work_done_alone_is_cancelled_with_whoever_waits_for_it() -> None:
    ended = asyncio.Event()

    async def works() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(alone(works(), name="work"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert waiting.cancelled()
    assert ended.is_set()
