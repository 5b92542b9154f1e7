"""What people call a job: its number, "42_7", the id of one of its tasks, or its name; and which job that is."""

import re
from collections.abc import Iterable

from gangline_client.client import Client
from gangline_client.errors import InputError
from gangline_client.paths import JobQuery

NUMBER = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
"""Only as numbers are shown: 007 is a name, and so is what begins with a date."""
ELEMENT = re.compile(r"([1-9][0-9]{0,15})_(0|[1-9][0-9]{0,7})", re.ASCII)
TASK = re.compile(r"([1-9][0-9]{0,15})-[1-9][0-9]{0,5}-([A-Za-z0-9][A-Za-z0-9_-]*)-(?:0|[1-9][0-9]{0,5})", re.ASCII)


async def find_job(client: Client, text: str) -> int:
    """The job's number from its number, "42_7", the id of one of its tasks, or the newest of its name.

    The elements of an array have its name, so the name of an array is the array.

    Raises:
        InputError: no job of the name can be seen.
    """
    return (await find_task(client, text))[0]


async def find_task(client: Client, text: str) -> tuple[int, str]:
    """The job, and which of its tasks is meant; "" where the whole job is.

    Raises:
        InputError: no job of the name can be seen.
    """
    if not text:
        # As a filter it would be none: the newest of all jobs.
        raise InputError("which job? Its number or name is empty", next_step="See the jobs with `gangline show`.")
    if element := ELEMENT.fullmatch(text):
        return (await client.element(int(element[1]), int(element[2]))).id, ""
    if NUMBER.fullmatch(text):
        return int(text), ""
    task = TASK.fullmatch(text)
    if task is not None and not task[2][0].isdecimal():
        return int(task[1]), text
    async for job in client.jobs(JobQuery(name=text, newest_first=True), limit=1):
        return job.array_job or job.id, ""
    if task is not None:
        # A role may be called "30"; but 2026-11-30-1 is the name of a job first.
        return int(task[1]), text
    raise InputError(f"there is no job named {text}", next_step="See the jobs with `gangline show`.")


async def find_jobs(client: Client, texts: Iterable[str]) -> dict[int, str]:
    """Numbers of the jobs that are named so, each with what to call it: an element stays "42_7".

    Raises:
        InputError: no job of some name can be seen.
    """
    found: dict[int, str] = {}
    for text in texts:
        job = await find_job(client, text)
        found[job] = text if is_element(text) else str(job)
    return found


def is_number(text: str) -> bool:
    """True for a job's number."""
    return NUMBER.fullmatch(text) is not None


def is_element(text: str) -> bool:
    """True for an element of an array as "42_7"."""
    return ELEMENT.fullmatch(text) is not None
