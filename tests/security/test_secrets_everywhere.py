"""Secrets planted in a whole platform: no log line of any service, no stream, archive, snapshot or feed carries one."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from dollhouse.front import Answered, write_request
from dollhouse.loop import live
from dollhouse.plan import FLEETS
from dollhouse.town import ADMIN_TOKEN, Town
from gangline_core.ids import JobId
from gangline_core.job import ENDS
from gangline_wire.streams import SECRETS

PLANTED = "pl4nted-s3cret-"
JOB = """{"name": "leaky-%d", "command": ["train", "--token", "pl4nted-s3cret-1", "--password=pl4nted-s3cret-2",
 "--header", "Authorization: Bearer pl4nted-s3cret-3"], "env": {"API_TOKEN": "pl4nted-s3cret-4",
 "MODE": "plainly-shown", "AWS_SECRET_ACCESS_KEY": "pl4nted-s3cret-5"}, "secrets": {"PHRASE": "pl4nted-s3cret-6"},
 "group": "lab", "user": "ann", "gpus": 1, "cpus": 1, "memory": "1Gi",
 "attributes": {"run_time_s": 3, "exit_code": %d}}"""
READS = ("/v1/jobs/1", "/v1/jobs/2/explain", "/v1/jobs/1/history", "/v1/jobs", "/v1/queue", "/v1/tokens", "/v1/usage")
BEARERS = ("pl4nted-s3cret-7", "ey.pl4nted-s3cret-8.sig", f"{ADMIN_TOKEN}-pl4nted-s3cret-9")
"""Tokens of nobody, one of them in the shape of an identity provider's."""


class Heard(logging.Handler):
    """Every line that any service says, at any level, with what it says of errors."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self._shape = logging.Formatter("%(name)s %(message)s %(args)s")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self._shape.format(record) + repr(record.__dict__))


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, root = Heard(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.setLevel(before)
    root.removeHandler(handler)


async def ask(town: Town, method: str, path: str, body: str = "", token: str = ADMIN_TOKEN) -> Answered:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    answered = await town.front.call(
        town.front.doors["gateway"], write_request(method, path, headers, body.encode()), within_s=30
    )
    assert answered is not None
    return answered


async def leaky_story(folder: Path) -> tuple[dict[str, bytes], list[bytes]]:
    """What every store holds at the end, and every answer that was given."""
    answers: list[bytes] = []
    async with Town(folder) as town:
        await town.begin(FLEETS, copies=2, doors=1)
        for code in (0, 1):
            answered = await ask(town, "POST", "/v1/jobs", JOB % (code, code))
            assert answered.status == 202, answered.body
            answers.append(answered.body)
        answers.append((await ask(town, "POST", "/v1/jobs", JOB % (3, 0) + "}")).body)
        answers.append((await ask(town, "POST", "/v1/jobs", (JOB % (4, 0)).replace('"gpus": 1', '"gpus": -1'))).body)
        for bearer in BEARERS:
            refused = await ask(town, "GET", "/v1/jobs", token=bearer)
            assert refused.status == 401
            answers.append(refused.body)
        await town.crash("recorder")
        town.restart("recorder")
        await town.until(lambda state: all(state.kept.jobs[JobId(job)].state in ENDS for job in (1, 2)), 900)
        answers += [(await ask(town, "GET", path)).body for path in READS]
        await town.clock.sleep(60)
        stored = {
            f"{name} {message.seq}": message.subject.encode() + message.data + repr(message.headers).encode()
            for name, stream in town.server.streams.items()
            for message in stream.messages
        }
        stored |= {f"object {name}": data for name, data in town.server.objects.items()}
        for name, bucket in town.server.buckets.items():
            entries = {key: bucket.get(key) for key in bucket.held()}
            if name != SECRETS.name:
                stored |= {f"{name} {key}": entry.value for key, entry in entries.items() if entry is not None}
        stored |= {f"metrics of {name}": process.site.metrics.render() for name, process in town.processes.items()}
    return stored, answers


def files_of(folder: Path) -> dict[str, bytes]:
    """Everything that was written into the folder, but for the administrator's own token."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "admin-token")
    return {str(path): path.read_bytes() for path in files}


def test_no_store_no_log_line_and_no_answer_of_any_service_carries_a_planted_secret(
    tmp_path: Path, heard: Heard
) -> None:
    stored, answers = live(leaky_story(tmp_path))
    stored |= files_of(tmp_path)
    assert any(b"plainly-shown" in data for data in stored.values()), "what is no secret is there"
    assert any(path.endswith(".jsonl") for path in stored), "the archive is among what was searched"
    assert len(heard.lines) > 10
    for name, data in stored.items():
        assert PLANTED.encode() not in data, name
        assert ADMIN_TOKEN.encode() not in data, name
    for line in heard.lines:
        assert PLANTED not in line
        assert ADMIN_TOKEN not in line
    for answer in answers:
        assert PLANTED.encode() not in answer
