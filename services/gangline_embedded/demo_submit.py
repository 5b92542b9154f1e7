"""Sending jobs through the HTTP API: as their own users, at their own times, remembering every answer."""

import asyncio
from collections.abc import Sequence

from gangline_client.client import Client
from gangline_client.errors import ClientError
from gangline_client.retry import Retry
from gangline_core.groups import Group, User
from gangline_embedded.demo_plan import Submission
from gangline_kit.clock import Clock

SENDERS = 8
"""Submissions under way at once."""
PATIENCE = Retry(attempts=40, first_delay_s=0.1, delay_s_max=2.0)
"""A submit goes on through a restart of anything; the same Idempotency-Key makes it happen once."""


class Answers:
    """What the platform said to every submission."""

    def __init__(self) -> None:
        """Nothing was sent yet."""
        self.accepted: dict[int, str] = {}
        """Name of every job that was answered 202, by its id."""
        self.refused: dict[str, str] = {}
        """Why others were not, by name."""
        self.expected = 0
        """Jobs that will be sent in all."""

    @property
    def all_in(self) -> bool:
        """True when every submission was answered."""
        return len(self.accepted) + len(self.refused) >= self.expected


async def set_up(admin: Client, groups: Sequence[Group], users: Sequence[User]) -> dict[tuple[str, str], str]:
    """Make the groups and users through the API; a token for each (group, user)."""
    tokens = {}
    for group in groups:
        await admin.set_group(group, why="demo")
    for user in users:
        await admin.set_user(user, why="demo")
        issued = await admin.issue_token(name=f"demo {user.name}", role="user", user=user.name, groups=[user.group])
        tokens[user.group, user.name] = issued.token
    return tokens


async def submit_all(
    submissions: Sequence[Submission],
    clients: dict[tuple[str, str], Client],
    answers: Answers,
    *,
    clock: Clock,
    run: str,
) -> None:
    """Send every submission when its time has come; `run` makes the idempotency keys of this run its own."""
    due: asyncio.Queue[Submission | None] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        for _ in range(SENDERS):
            group.create_task(_send(due, clients, answers, run))
        began_s = clock.monotonic_s()
        for submission in submissions:
            await clock.sleep(max(0.0, submission.after_s - (clock.monotonic_s() - began_s)))
            due.put_nowait(submission)
        for _ in range(SENDERS):
            due.put_nowait(None)


async def _send(
    due: asyncio.Queue[Submission | None], clients: dict[tuple[str, str], Client], answers: Answers, run: str
) -> None:
    while (submission := await due.get()) is not None:
        client = clients[submission.group, submission.user]
        await submit_one(client, submission.document, answers, key=f"{run}-{submission.number}")


async def submit_one(client: Client, document: dict[str, object], answers: Answers, *, key: str) -> int:
    """Submit one job and remember the answer; its id, or 0 when it was refused."""
    try:
        view = await client.submit(document, key=key)
    except ClientError as error:
        answers.refused[str(document["name"])] = str(error)
        return 0
    answers.accepted[view.id] = view.name
    return view.id
