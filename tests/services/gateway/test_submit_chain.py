"""A chain of jobs in one call: later ones name those before, which have no numbers yet."""

from typing import Any

from tests.services.gateway.conftest import Visitor

BATCH = "/v1/jobs:batch"
CHAIN: list[dict[str, Any]] = [
    {"name": "prep", "command": ["true"]},
    {"name": "train", "command": ["true"], "gpus": 2, "after": "prep"},
    {"name": "clean", "command": ["true"], "after": ["afterany:train", {"job": "prep", "outcome": "notok"}]},
]


async def test_names_become_the_numbers_that_the_jobs_get(visitor: Visitor) -> None:
    await visitor.submit("una")
    batch = await visitor.ask("una", "POST", BATCH, status=202, json={"jobs": CHAIN})
    assert [job["id"] for job in batch["jobs"]] == [2, 3, 4]
    assert len(visitor.setting.bus.requests) == 2, "all of them in one message"
    after = {number: job.spec.after for number, job in visitor.setting.world.state.kept.jobs.items()}
    assert [(one.job, one.kind.value, one.entry) for one in after[3]] == [(2, "ok", -1)]
    assert [(one.job, one.kind.value, one.entry) for one in after[4]] == [(3, "any", -1), (2, "notok", -1)]
    why = await visitor.ask("una", "GET", "/v1/jobs/3/explain")
    assert why["sentence"] == "Waits for job 2 to end."


async def test_a_repeated_call_gives_the_same_jobs(visitor: Visitor) -> None:
    headers = {"Idempotency-Key": "one"}
    first = await visitor.ask("una", "POST", BATCH, status=202, json={"jobs": CHAIN}, headers=headers)
    again = await visitor.ask("una", "POST", BATCH, status=202, json={"jobs": CHAIN}, headers=headers)
    assert again["repeated"]
    assert [job["id"] for job in again["jobs"]] == [job["id"] for job in first["jobs"]]
    other = [CHAIN[0], {**CHAIN[1], "after": "afterany:prep"}, CHAIN[2]]
    problem = await visitor.ask("una", "POST", BATCH, status=422, json={"jobs": other}, headers=headers)
    assert problem["code"] == "key_reused"


async def test_a_dry_run_says_for_which_job_of_the_call_each_would_wait(visitor: Visitor) -> None:
    batch = await visitor.ask("una", "POST", f"{BATCH}?dry_run=1", json={"jobs": CHAIN})
    told = [job["foretold"] for job in batch["jobs"]]
    assert [one["has_room"] for one in told] == [True, False, False]
    assert told[1]["reason"]["code"] == "Dependency"
    assert [one["start_note"] for one in told[1:]] == [
        "Waits for job prep to end.",
        "Waits for job train to end.",
    ]
    assert "start_from_ms" not in told[1], "nobody knows"
    assert told[1]["nodes_suitable"] == 2


async def test_names_that_say_nothing_are_refused_where_they_stand(visitor: Visitor) -> None:
    for query in ("", "?dry_run=1"):
        for jobs, path, words in (
            ([CHAIN[1], CHAIN[0]], "jobs[0].after[0]", '"prep" comes later in this call'),
            ([CHAIN[0], CHAIN[2]], "jobs[1].after[0]", '"train" is no job\'s number, nor'),
        ):
            problem = await visitor.ask("una", "POST", BATCH + query, status=422, json={"jobs": jobs})
            assert problem["errors"][0]["path"] == path
            assert problem["errors"][0]["message"].startswith(words)
    problem = await visitor.submit("una", after="prep", status=422)
    assert "no job's number, nor the name of a job before it" in problem["errors"][0]["message"]


async def test_whoever_is_wrong_itself_is_told_and_not_those_that_follow(visitor: Visitor) -> None:
    wrong = [{**CHAIN[0], "gpu": 1}, CHAIN[1]]
    problem = await visitor.ask("una", "POST", BATCH, status=422, json={"jobs": wrong})
    assert [error["path"] for error in problem["errors"]] == ["jobs[0].gpu"]
    refused = [{**CHAIN[0], "gpus": 99}, CHAIN[1]]
    problem = await visitor.ask("una", "POST", BATCH, status=422, json={"jobs": refused})
    assert [error["path"] for error in problem["errors"]] == ["jobs[0].gpus"]
    assert not visitor.setting.world.state.kept.jobs
