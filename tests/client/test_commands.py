"""The other verbs: what they ask, what they print, what the shell gets back."""

import asyncio
import json
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.client import samples as s
from tests.client.command_line import gangline
from tests.client.fake_platform import FakePlatform, Reply, problem
from tests.make import spec

from gangline_client.words import command_line
from gangline_core.cluster import Policy
from gangline_core.groups import Group, User
from gangline_wire import views as v

DONE = v.DoneView(version=4)
TWO_DOCUMENTS = "command: [a]\n---\ncommand: [b]\nname: second\n"


def batch(*ids: int, repeated: bool = False) -> Reply:
    jobs = tuple(v.SubmittedView(id=number, name=f"job-{number}", state="waiting") for number in ids)
    return Reply(view=v.BatchView(jobs=jobs, repeated=repeated), status=202)


# --- submit and wait -----------------------------------------------------------------------------------------


async def test_all_documents_of_all_files_are_submitted_in_one_call(platform: FakePlatform, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TWO_DOCUMENTS)
    (tmp_path / "b.json").write_text('[{"command": ["c"]}, {"command": ["d"], "group": "own"}]')
    platform.answer("POST", "/v1/jobs:batch", batch(1, 2, 3, 4))
    result = await gangline(platform.url, "submit", str(tmp_path / "a.yaml"), str(tmp_path / "b.json"), "--group", "g")
    assert result.code == 0
    assert result.out.splitlines()[1:] == [f"  {n}  job-{n}  waiting" for n in (1, 2, 3, 4)]
    (asked,) = platform.asked
    assert isinstance(asked.body, dict)
    assert [job["command"] for job in asked.body["jobs"]] == [["a"], ["b"], ["c"], ["d"]]
    assert [job["group"] for job in asked.body["jobs"]] == ["g", "g", "g", "own"]
    assert asked.headers["Idempotency-Key"] == "key-1"


async def test_a_batch_script_is_submitted_as_the_job_its_header_says(platform: FakePlatform, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n#SBATCH -n 2 --gpus=2 -o out.txt\npython train.py\n")
    platform.answer("POST", "/v1/jobs:batch", batch(1))
    result = await gangline(platform.url, "submit", str(script))
    assert result.code == 0
    assert "no file is written" in result.err
    assert "`gangline logs -f JOB`" in result.err
    (asked,) = platform.asked
    assert isinstance(asked.body, dict)
    (job,) = asked.body["jobs"]
    assert (job["tasks"], job["gpus"], job["command"][:2]) == (2, 1, ["/bin/sh", "-c"])


async def test_a_job_file_may_name_its_folder_from_where_one_stands(platform: FakePlatform, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    for written, sent in (("./resnet", f"{Path.cwd()}/resnet"), (".", f"{Path.cwd()}"), ("/data/x", "/data/x")):
        file.write_text(f"command: [python, train.py]\nworkdir: {written}\n")
        platform.answer("POST", "/v1/jobs:batch", batch(1))
        assert (await gangline(platform.url, "submit", str(file))).code == 0
        assert isinstance(platform.asked[-1].body, dict)
        assert platform.asked[-1].body["jobs"][0]["workdir"] == sent


async def test_what_sbatch_is_told_on_its_command_line_is_told_to_submit(
    platform: FakePlatform, tmp_path: Path
) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\n#SBATCH -t 5 --dependency=afterany:3\necho $0 $2\n")
    platform.answer("POST", "/v1/jobs:batch", batch(1))
    flags = ("--after", "7", "--after", "afternotok:8_1", "--set", "time_limit=2h", "--set", "labels={a: b}")
    result = await gangline(platform.url, "submit", str(script), *flags, "--args", "x", "--after")
    assert result.code == 0
    assert isinstance(platform.asked[-1].body, dict)
    (job,) = platform.asked[-1].body["jobs"]
    assert (job["time_limit"], job["labels"]) == ("2h", {"a": "b"})
    assert job["after"] == ["afterany:3", 7, "afternotok:8_1"]
    ran = await asyncio.to_thread(subprocess.run, job["command"], capture_output=True, check=True, text=True)
    assert ran.stdout == "train.sh --after\n"
    assert command_line(job["command"]) == "/bin/bash -c a script of 3 lines with x --after: echo $0 $2 ..."

    file = tmp_path / "job.yaml"
    file.write_text('command: ["true"]\n')
    assert "only batch scripts take arguments" in (await gangline(platform.url, "submit", str(file), "--args", "x")).err
    assert "is no value of YAML" in (await gangline(platform.url, "submit", str(file), "--set", "after=[")).err
    assert "--args" in (await gangline(platform.url, "submit", str(script), "a", "b")).err


async def test_every_wrong_line_of_a_batch_script_is_told_on_a_line_of_its_own(
    platform: FakePlatform, tmp_path: Path
) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n#GANGLINE nonsense\n#SBATCH --exclusive\n#SBATCH --tme=5\npython train.py\n")
    result = await gangline(platform.url, "submit", str(script))
    head, *lines = result.err.splitlines()
    assert (result.code, head) == (1, f"gangline: {script} cannot be submitted:")
    assert [line.partition(":")[0] for line in lines] == ["  line 2", "  line 3", "  line 4"]
    script.write_text("#!/bin/sh\n#SBATCH --tme=5\npython train.py\n")
    (one,) = (await gangline(platform.url, "submit", str(script))).err.splitlines()
    assert one.startswith(f"gangline: {script}: line 2: --tme is no option")
    assert not platform.asked


async def test_a_dry_run_tells_what_would_become_of_the_job(platform: FakePlatform, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("command: [a]")
    effect = v.EffectView(holder="g", dimension="gpu_milli", used=3000, needed=2000, limit=8000)
    told = v.ForetoldView(
        has_room=False,
        reason=v.ReasonView(code="InsufficientResources", sentence="Needs 2 GPUs; 1 is free."),
        position=2,
        waiting=2,
        effects=(effect,),
        nodes=("n1", "n2"),
        nodes_suitable=5,
        cost_milli=2500,
    )
    job = v.SubmittedView(id=0, name="a", state="waiting", foretold=told)
    platform.answer("POST", "/v1/jobs:batch", Reply(view=v.BatchView(jobs=(job,)), status=200))
    result = await gangline(platform.url, "submit", str(tmp_path / "a.yaml"), "--dry-run")
    assert result.code == 0
    text = " ".join(result.out.split())
    for part in (
        "The job would be admitted.",
        "Needs 2 GPUs; 1 is free.",
        "2 of 2 waiting",
        "unknown",
        "n1, n2 and 3 more suitable",
        "at most 2.5 GPU-hours",
        "g GPUs 3 2 - 8",
    ):
        assert part in text, text


async def test_a_wrong_field_is_told_with_file_document_and_path(platform: FakePlatform, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(TWO_DOCUMENTS)
    errors = (
        v.FieldErrorView("jobs[1].roles[0].memory", 'needs a unit: write "16Gi"'),
        v.FieldErrorView("jobs[0]", "is odd"),
    )
    refused = problem(422, "invalid_fields", "Some fields are wrong", errors=errors)
    platform.answer("POST", "/v1/jobs:batch", refused)
    result = await gangline(platform.url, "submit", str(file))
    assert result.code == 1
    assert result.err.splitlines() == [
        "gangline: Some fields are wrong",
        f'  {file}, document 2: roles[0].memory: needs a unit: write "16Gi"',
        f"  {file}, document 1: is odd",
    ]


async def test_a_refused_job_is_told_with_the_number_that_is_too_large(platform: FakePlatform, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("command: [a]")
    reason = v.ReasonView(
        code="NeverFitsNode", sentence="One task needs 16 gpus; the largest node has 8.", hint="Split the role."
    )
    refusal = v.RefusalView(index=0, reason=reason)
    platform.answer("POST", "/v1/jobs:batch", problem(422, "refused", "The job was refused", refusals=(refusal,)))
    result = await gangline(platform.url, "submit", str(tmp_path / "a.yaml"))
    assert result.code == 1
    assert "a.yaml: NeverFitsNode: One task needs 16 gpus; the largest node has 8." in result.err
    assert "Split the role." in result.err


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.yaml", "a: [", "line 2: did not find"),
        ("a.json", "{", "is not JSON"),
        ("a.yaml", "just text", "a job is a mapping of fields, not str"),
        ("train.sh", "python train.py\n", "a batch script begins with #!, such as #!/bin/bash"),
        ("a.yaml", "# nothing\n", "holds no job"),
        ("a.yaml", "? [1, 2]\n: x\n", "line 1"),
        ("a.yaml", "x: !!python/object:os.system {}", "could not determine a constructor"),
        ("a.yaml", "{null: 1}", "cannot be sent as JSON"),
        ("a.yaml", None, "No such file"),
    ],
)
async def test_a_file_that_holds_no_jobs_is_told_before_anything_is_sent(
    platform: FakePlatform, tmp_path: Path, name: str, text: str | None, told: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    result = await gangline(platform.url, "submit", str(tmp_path / name))
    assert result.code == 1
    assert told in result.err
    assert platform.asked == []


async def test_submit_and_wait_returns_the_first_bad_exit_code(platform: FakePlatform, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TWO_DOCUMENTS)
    platform.answer("POST", "/v1/jobs:batch", batch(3, 7))
    platform.answer("GET", "/v1/jobs/3", s.FAILED)
    platform.answer("GET", "/v1/jobs/7", s.RUNNING, msgspec.structs.replace(s.RUNNING, state="succeeded"))
    result = await gangline(platform.url, "submit", "--hold", "--wait", str(tmp_path / "a.yaml"))
    assert result.code == 3
    assert "Job 3 (broken) failed with exit code 3: Task 3-1-worker-0 exited with code 3." in result.out
    body = platform.requests("POST", "/v1/jobs:batch")[0].body
    assert isinstance(body, dict)
    assert all(job["hold"] for job in body["jobs"])


async def test_a_repeated_key_says_that_nothing_was_done_again(platform: FakePlatform, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("command: [a]")
    platform.answer("POST", "/v1/jobs:batch", batch(9, repeated=True))
    result = await gangline(platform.url, "submit", "--key", "k", str(tmp_path / "a.yaml"), "-o", "name")
    assert result.out == "9\n"
    result = await gangline(platform.url, "submit", "--key", "k", str(tmp_path / "a.yaml"))
    assert "nothing was done again" in result.err


async def test_waiting_ends_where_it_was_told_to_or_when_the_time_is_over(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/jobs/7", s.RUNNING)
    assert (await gangline(platform.url, "wait", "7", "--for", "running")).code == 0
    over = await gangline(platform.url, "wait", "7", "--timeout", "0")
    assert (over.code, over.err) == (124, "gangline: not ended after 0; the jobs go on.\n")


# --- acts ------------------------------------------------------------------------------------------------------


async def test_acts_go_to_jobs_by_number_task_or_newest_of_a_name(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/jobs", v.JobPage(jobs=(s.WAITING,)))
    for job in (5, 6, 41):
        platform.answer("POST", f"/v1/jobs/{job}/cancel", DONE)
    result = await gangline(platform.url, "cancel", "5", "6-1-worker-0", "train-resnet", "--why", "old")
    assert result.out.splitlines() == [f"Job {job} will be cancelled." for job in (5, 6, 41)]
    assert platform.requests("GET", "/v1/jobs")[0].query == {"name": "train-resnet", "limit": "1", "order": "desc"}
    assert platform.requests("POST", "/v1/jobs/5/cancel")[0].body == {"why": "old"}


async def test_one_refused_act_does_not_keep_the_others_from_theirs(platform: FakePlatform) -> None:
    platform.answer("POST", "/v1/jobs/6/release", DONE)
    result = await gangline(platform.url, "release", "5", "6")
    assert (result.code, result.out) == (1, "Job 6 is released.\n")
    assert "There is no such thing (job 5)." in result.err


@pytest.mark.parametrize(
    "detail", ["job 5 has ended already (timed out)", "only a job that waits can be put first; 5 is running"]
)
async def test_a_refusal_that_names_the_job_names_it_once(platform: FakePlatform, detail: str) -> None:
    platform.answer("POST", "/v1/jobs/5/release", problem(409, "conflict", "", detail=detail))
    result = await gangline(platform.url, "release", "5")
    assert result.err.count("5") == 1


async def test_a_refusal_that_has_its_number_for_something_else_names_the_job(platform: FakePlatform) -> None:
    detail = "its group may have 5 jobs at most"
    platform.answer("POST", "/v1/jobs/5/release", problem(409, "conflict", "", detail=detail))
    result = await gangline(platform.url, "release", "5")
    assert "may have 5 jobs at most (job 5)." in result.err


async def test_acts_on_all_that_match_need_a_yes(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/whoami", s.WHOAMI)
    platform.answer("GET", "/v1/jobs", v.JobPage(jobs=(s.WAITING, s.RUNNING)))
    platform.answer("POST", "/v1/jobs/41/hold", DONE)
    platform.answer("POST", "/v1/jobs/7/hold", DONE)
    refused = await gangline(platform.url, "hold", "--mine")
    assert (refused.code, refused.out) == (2, "")
    assert "--yes" in refused.err
    done = await gangline(platform.url, "hold", "--mine", "--yes")
    assert done.out == "Job 41 is held.\nJob 7 is held.\n"
    query = platform.requests("GET", "/v1/jobs")[-1].query
    assert (query["user"], query["state"]) == ("ada", "waiting,running,resizing,paused")


async def test_what_is_neither_a_job_nor_a_node_is_not_called_a_job(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/nodes", v.NodesView(nodes=(s.NODE,)))
    platform.answer("GET", "/v1/jobs", v.JobPage(jobs=()))
    result = await gangline(platform.url, "resume", "node-3x")
    assert result.code == 1
    assert "there is neither a node nor a job named node-3x" in result.err


async def test_usage_of_a_group_that_is_not_there_is_no_empty_table(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/usage", v.UsageView(at=1, lines=()))
    result = await gangline(platform.url, "usage", "--group", "nowhere")
    assert (result.code, result.out) == (1, "")
    assert "there is no group nowhere" in result.err


async def test_jobs_are_suspended_and_resumed_by_number_and_nodes_by_name(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/nodes", v.NodesView(nodes=(s.NODE,)))
    platform.answer("POST", "/v1/jobs/7/suspend", DONE)
    platform.answer("POST", "/v1/jobs/7/resume", DONE)
    platform.answer("POST", f"/v1/nodes/{s.NODE.id}/resume", DONE)
    assert (await gangline(platform.url, "suspend", "7")).out == "Job 7 is suspended.\n"
    await gangline(platform.url, "suspend", "7", "--stop")
    assert [request.body for request in platform.requests("POST", "/v1/jobs/7/suspend")] == [{}, {"stop": True}]
    resumed = await gangline(platform.url, "resume", "7", s.NODE.id, "--urgent")
    assert resumed.out == f"Job 7 goes on.\nNode {s.NODE.id} takes work again.\n"
    assert platform.requests("POST", "/v1/jobs/7/resume")[0].body == {"urgent": True}


async def test_the_name_of_an_array_is_the_array(platform: FakePlatform) -> None:
    element = v.JobView(
        id=9, name="sweep", state="waiting", slurm="PD", group="lab", user="ada", pool="default", array_job=6
    )
    platform.answer("GET", "/v1/jobs", v.JobPage(jobs=(element,)))
    platform.answer("POST", "/v1/jobs/6/hold", DONE)
    assert (await gangline(platform.url, "hold", "sweep")).code == 0
    assert platform.requests("POST", "/v1/jobs/6/hold")


async def test_what_is_done_to_an_element_is_said_of_the_element(platform: FakePlatform) -> None:
    element = v.JobView(
        id=9,
        name="sweep",
        state="waiting",
        slurm="PD",
        group="lab",
        user="ada",
        pool="default",
        array_job=4,
        array_index=4,
    )
    platform.answer("GET", "/v1/jobs/4_4", element)
    platform.answer("GET", "/v1/jobs", v.JobPage(jobs=(element,)))
    for verb in ("hold", "release", "cancel"):
        platform.answer("POST", f"/v1/jobs/9/{verb}", DONE)
    platform.answer("DELETE", "/v1/jobs/9", DONE)
    assert "Job 4_4 is held." in (await gangline(platform.url, "hold", "4_4")).out
    assert "Job 4_4 is released." in (await gangline(platform.url, "release", "4_4")).out
    assert "Job 4_4 will be" in (await gangline(platform.url, "cancel", "--group", "lab", "--yes")).out


@pytest.mark.parametrize("words", [["cancel"], ["cancel", "5", "--mine"], ["show", "--label", "x"]])
async def test_unclear_choices_are_wrong_usage(platform: FakePlatform, words: list[str]) -> None:
    assert (await gangline(platform.url, *words)).code == 2


@pytest.mark.parametrize("typed", [("drain",), ("nodes", "drain")], ids=" ".join)
async def test_nodes_are_drained_with_a_reason_and_resumed(platform: FakePlatform, typed: tuple[str, ...]) -> None:
    platform.answer("GET", "/v1/nodes", v.NodesView(nodes=(s.NODE,)))
    platform.answer("POST", "/v1/nodes/n%2F1/drain", DONE)
    platform.answer("POST", "/v1/nodes/n1/resume", DONE)
    assert (await gangline(platform.url, *typed, "n/1", "--why", "fans")).code == 0
    assert (await gangline(platform.url, "resume", "n1")).out == "Node n1 takes work again.\n"
    assert platform.asked[0].body == {"why": "fans"}


@pytest.mark.parametrize("typed", [("forget",), ("nodes", "forget")], ids=" ".join)
async def test_lost_nodes_are_taken_off_the_books(platform: FakePlatform, typed: tuple[str, ...]) -> None:
    platform.answer("DELETE", "/v1/nodes/n1", DONE)
    said = await gangline(platform.url, *typed, "n1", "--gone", "--why", "scrapped")
    assert "off the books" in said.out
    assert platform.asked[0].query == {"gone": "true", "why": "scrapped"}
    await gangline(platform.url, *typed, "n1")
    assert platform.asked[1].query == {}


async def test_nodes_are_assigned_to_a_pool_and_given_back(platform: FakePlatform) -> None:
    platform.answer("POST", "/v1/nodes/n1/assign", DONE)
    said = await gangline(platform.url, "assign", "n1", "--pool", "large", "--why", "a deadline")
    assert "serves pool large" in said.out
    await gangline(platform.url, "nodes", "assign", "n1", "--back")
    assert [call.body for call in platform.asked] == [{"pool": "large", "why": "a deadline"}, {"pool": ""}]


# --- logs and events ---------------------------------------------------------------------------------------------


async def test_logs_are_the_bytes_of_the_job_or_of_one_task(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/jobs/7/logs", Reply(chunks=(b"a\n", b"b\n")))
    assert (await gangline(platform.url, "logs", "7-2-worker-0", "--tail", "5")).out == "a\nb\n"
    assert platform.asked[0].query == {"task": "7-2-worker-0", "tail": "5"}
    # Of several tasks each line says whose it is, unless they are wanted as they came.
    await gangline(platform.url, "logs", "7")
    await gangline(platform.url, "logs", "7", "--raw")
    assert [one.query for one in platform.requests("GET", "/v1/jobs/7/logs")[1:]] == [{"prefix": "true"}, {}]


async def test_events_are_lines_for_people_and_objects_for_programs(platform: FakePlatform) -> None:
    lines = b"".join(b"id: %b\ndata: %b\n\n" % (x.id.encode(), msgspec.json.encode(x)) for x in s.HISTORY.events)
    platform.answer("GET", "/v1/events", Reply(chunks=(lines,)))
    shown = await gangline(platform.url, "events", "--count", "2", "--group", "research")
    first = "2023-11-14T21:58:20Z  Admitted     job 41 (train-resnet) ada@research/vision: Admitted; it waits in pool"
    assert shown.out.splitlines()[0] == f"{first} default."
    objects = await gangline(platform.url, "events", "--count", "2", "--after", "1-0", "-o", "json")
    assert [json.loads(line)["id"] for line in objects.out.splitlines()] == ["12-0", "13-0"]
    assert platform.asked[1].headers["Last-Event-ID"] == "1-0"


# --- settings ------------------------------------------------------------------------------------------------------


async def test_quota_changes_only_what_was_named_and_only_the_version_that_was_read(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/groups/research", s.RESEARCH)
    platform.answer("PUT", "/v1/groups/research", DONE)
    words = ["gpus=16", "gpus:V100=", "guaranteed.cpus=1.5", "user.memory=8Gi", "job.gpus=500m", "heads=ada,eve"]
    words += ["budget=0", "time_limit=1d", "queued_jobs=9"]
    result = await gangline(platform.url, "quota", "set", "research", *words, "--dry-run")
    (asked,) = platform.requests("PUT", "/v1/groups/research")
    assert asked.headers["If-Match"] == '"3"'
    assert asked.query == {"dry_run": "true"}
    assert msgspec.convert(asked.body, Group) == msgspec.structs.replace(
        s.RESEARCH.settings,
        limit={"gpu_milli": 16000, "memory_mib": 65536},
        guaranteed={"gpu_milli": 4000, "cpu_milli": 1500},
        user_limit={"jobs": 3, "memory_mib": 8192},
        job_limit={"gpu_milli": 500},
        heads=("ada", "eve"),
        budget_gpu_hours=0,
        time_limit_s_max=86400,
        queued_jobs_max=9,
    )
    assert result.out.splitlines()[:3] == ["Group research would be changed:", "  budget: 2000 -> -", "  gpus: 8 -> 16"]


async def test_somebody_elses_change_meanwhile_is_not_overwritten(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/groups/research", s.RESEARCH)
    platform.answer(
        "PUT", "/v1/groups/research", problem(412, "version_conflict", "Somebody else changed it meanwhile")
    )
    result = await gangline(platform.url, "quota", "set", "research", "gpus=1")
    assert result.code == 1
    assert "look at it again and repeat the change" in result.err


async def test_a_doubtful_change_is_made_and_noted(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/groups/research", s.RESEARCH)
    platform.answer("PUT", "/v1/groups/research", v.DoneView(doubts=("it is more than there is",)))
    result = await gangline(platform.url, "quota", "set", "research", "gpus=64")
    assert (result.code, result.err) == (0, "Note: it is more than there is.\n")


async def test_nothing_is_written_when_nothing_changes(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/groups/research", s.RESEARCH)
    assert (await gangline(platform.url, "quota", "set", "research", "gpus=8")).out == "Nothing changes.\n"


async def test_a_group_or_member_is_made_only_when_asked_to(platform: FakePlatform) -> None:
    platform.answer("PUT", "/v1/groups/new", DONE)
    platform.answer("PUT", "/v1/groups/new/users/ada", DONE)
    refused = await gangline(platform.url, "quota", "set", "new", "gpus=8")
    assert refused.code == 1
    assert "--create" in refused.err
    assert (await gangline(platform.url, "quota", "set", "new", "gpus=8", "--create")).code == 0
    assert (await gangline(platform.url, "quota", "user", "new", "ada", "gpus=2", "--create")).code == 0
    made = platform.requests("PUT", "/v1/groups/new/users/ada")[0].body
    assert msgspec.convert(made, User) == User(name="ada", group="new", limit={"gpu_milli": 2000})


@pytest.mark.parametrize("change", ["gpus", "gups=8", "gpus:=8", "jobs:x=1", "gpus=many", "memory=8", "budget=x", "=1"])
async def test_a_change_that_cannot_be_read_is_wrong_usage(platform: FakePlatform, change: str) -> None:
    platform.answer("GET", "/v1/groups/research", s.RESEARCH)
    assert (await gangline(platform.url, "quota", "set", "research", change)).code == 2
    assert platform.requests("PUT", "/v1/groups/research") == []


async def test_a_policy_is_changed_as_a_whole_and_shown_as_a_difference(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/policies/default", v.PolicyView(pool="default", policy=Policy(), version=2))
    platform.answer("PUT", "/v1/policies/default", DONE)
    changes = ["ordering=fifo", "backfill=false", "starvation=2h", "candidates_max=5"]
    result = await gangline(platform.url, "policy", "set", "default", *changes, "--why", "test")
    (asked,) = platform.requests("PUT", "/v1/policies/default")
    assert asked.headers["If-Match"] == '"2"'
    wanted = Policy(ordering="fifo", backfill=False, starvation_s=7200, candidates_max=5)
    assert msgspec.convert(asked.body, Policy) == wanted
    assert "  ordering: weighted -> fifo" in result.out


async def test_a_pools_levels_are_shown_with_its_policy(platform: FakePlatform) -> None:
    levels = {"low": -1000, "normal": 0, "first": 500}
    view = v.PolicyView(pool="default", policy=Policy(), version=2, levels=levels)
    platform.answer("GET", "/v1/policies", v.PoliciesView(policies=(view,)))
    shown = (await gangline(platform.url, "policy")).out
    assert "  levels                first 500, normal 0, low -1000\n" in shown


async def test_a_change_of_a_policy_names_what_held_by_default(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/policies/default", v.PolicyView(pool="default", policy=Policy(), version=2))
    platform.answer("PUT", "/v1/policies/default", DONE)
    result = await gangline(platform.url, "policy", "set", "default", "objective=makespan", "hang=10m", "predictor=")
    shown = {"  objective: max_min -> makespan", "  hang_s: 0 -> 600", "  predictor: rolling -> -"}
    assert set(result.out.splitlines()[1:]) == shown


async def test_linting_a_formula_changes_nothing(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/policies/default", v.PolicyView(pool="default", policy=Policy(ordering="fifo")))
    wrong = v.FieldErrorView("formula", 'unknown name "agee"; did you mean "age_hours"?')
    refused = problem(422, "invalid_fields", "Some fields are wrong", errors=(wrong,))
    platform.answer("PUT", "/v1/policies/default", refused, DONE)
    bad = await gangline(platform.url, "policy", "lint", "agee * 2")
    assert bad.code == 1
    assert 'formula: unknown name "agee"; did you mean "age_hours"?' in bad.err
    assert (await gangline(platform.url, "policy", "lint", "age_hours")).out == "The formula is fine.\n"
    assert all(asked.query == {"dry_run": "true"} for asked in platform.requests("PUT", "/v1/policies/default"))


async def test_a_token_is_shown_once_and_revoked_by_name_or_hash(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/tokens", s.TOKENS)
    platform.answer("GET", "/v1/whoami", s.WHOAMI)
    issued = v.IssuedTokenView(token="gl_secret", view=s.TOKENS.tokens[0])
    platform.answer("POST", "/v1/tokens", issued)
    platform.answer("DELETE", f"/v1/tokens/{'a1' * 32}", DONE)
    result = await gangline(platform.url, "token", "issue", "laptop", "--group", "research", "--expires", "90d")
    assert result.out == "gl_secret\n"
    wanted = {"name": "laptop", "role": "user", "user": "ada", "groups": ["research"], "expires_in": "90d"}
    assert platform.requests("POST", "/v1/tokens")[0].body == wanted
    assert (await gangline(platform.url, "token", "revoke", "laptop", "a1a1a1a1")).code == 0
    assert (await gangline(platform.url, "token", "revoke", "a")).code == 1


# --- service ------------------------------------------------------------------------------------------------------


async def test_the_version_is_told_even_when_nobody_answers(platform: FakePlatform) -> None:
    platform.answer("GET", "/version", v.VersionView(version="9.9"))
    assert "platform 9.9 (API v1)" in (await gangline(platform.url, "version")).out
    alone = await gangline("http://127.0.0.1:1", "version")
    assert (alone.code, alone.err) == (0, "platform: no answer from http://127.0.0.1:1: connection refused\n")
    assert (await gangline("http://127.0.0.1:1", "version", "--client")).err == ""


async def test_a_missing_token_says_where_to_put_one(platform: FakePlatform) -> None:
    result = await gangline(platform.url, "show", environ={"GANGLINE_TOKEN": ""})
    assert result.code == 1
    assert "gangline: A valid token is needed" in result.err
    assert "GANGLINE_TOKEN" in result.err


async def test_show_tells_of_lost_members_and_of_cells_taken_over(platform: FakePlatform) -> None:
    job = v.JobView(
        id=7,
        name="train",
        state="running",
        slurm="R",
        group="lab",
        user="ada",
        pool="default",
        missing={"worker": 2},
        missing_ms=1,
        lowered_for=12,
        spec=spec("train", checkpoints=True),
    )
    platform.answer("GET", "/v1/jobs/7", job)
    platform.answer("GET", "/v1/jobs/7/history", v.HistoryView(job=7, events=()))
    told = (await gangline(platform.url, "show", "7")).out
    assert "2 worker, for " in told
    assert "taken over by job 12" in told
    assert "goes on later where it stopped (checkpoints)" in told


async def test_who_follows_a_job_may_name_it_and_is_told_which_that_is(platform: FakePlatform, tmp_path: Path) -> None:
    platform.answer("GET", "/v1/jobs", v.JobPage(jobs=(s.WAITING,)))
    platform.answer("POST", "/v1/jobs", s.WAITING)
    after = ("--after", "train-resnet", "--after", "afterany:train-resnet", "--after", "afternotok:8_1", "--after", "3")
    result = await gangline(platform.url, "run", "--detach", *after, "--", "true")
    assert f"train-resnet is job {s.WAITING.id}." in result.err
    (asked,) = platform.requests("POST", "/v1/jobs")
    assert isinstance(asked.body, dict)
    assert asked.body["after"] == [s.WAITING.id, f"afterany:{s.WAITING.id}", "afternotok:8_1", 3]
    quiet = await gangline(platform.url, "run", "--detach", "--quiet", "--after", "train-resnet", "--", "true")
    assert "is job" not in quiet.err

    file = tmp_path / "chain.yaml"
    file.write_text('name: first\narray: 0-3\ncommand: ["true"]\n---\nname: then\ncommand: ["true"]\n')
    platform.answer("POST", "/v1/jobs:batch", batch(2))
    flags = ("--after", "afterany:train-resnet")
    assert (await gangline(platform.url, "submit", str(file), *flags)).code == 0
    told = platform.requests("POST", "/v1/jobs:batch")[-1].body
    assert isinstance(told, dict)
    assert [job["after"] for job in told["jobs"]] == [[f"afterany:{s.WAITING.id}"]] * 2
    await gangline(platform.url, "submit", str(file), "--after", "first", "--after", "first_2")
    told = platform.requests("POST", "/v1/jobs:batch")[-1].body
    assert isinstance(told, dict)
    assert told["jobs"][1]["after"] == ["first", "first_2"]

    platform.answer("GET", "/v1/jobs", v.JobPage(jobs=()))
    assert "there is no job named gone" in (await gangline(platform.url, "run", "--after", "gone", "--", "true")).err


@pytest.mark.parametrize(("size", "told"), [(2, "worker 2 as before"), (3, "worker 2 -> 3")])
async def test_show_tells_a_move_from_a_change_of_size(platform: FakePlatform, size: int, told: str) -> None:
    resize = v.ResizeView(number=1, stage="settled", before={"worker": 2}, after={"worker": size}, why="faster on H100")
    job = v.JobView(
        id=7, name="train", state="running", slurm="R", group="lab", user="ada", pool="default", resize=resize
    )
    platform.answer("GET", "/v1/jobs/7", job)
    platform.answer("GET", "/v1/jobs/7/history", v.HistoryView(job=7, events=()))
    assert f"{told}, settled (faster on H100)" in (await gangline(platform.url, "show", "7")).out


async def test_show_tells_what_was_said_of_how_long_it_runs(platform: FakePlatform) -> None:
    said = spec("train", time_limit_s=9_000, estimate_s=5_400)
    job = v.JobView(
        id=7, name="train", state="running", slurm="R", group="lab", user="ada", pool="default", time_limit_s=9_000
    )
    platform.answer("GET", "/v1/jobs/7", msgspec.structs.replace(job, spec=said))
    platform.answer("GET", "/v1/jobs/7/history", v.HistoryView(job=7, events=()))
    told = (await gangline(platform.url, "show", "7")).out.split()
    assert " ".join(told[told.index("Time") :]).startswith("Time limit 2h30m Estimate 1h30m")
    platform.answer("GET", "/v1/jobs/7", msgspec.structs.replace(job, spec=spec("train"), time_limit_s=0))
    silent = (await gangline(platform.url, "show", "7")).out
    assert "Estimate" not in silent
    assert "Time limit" not in silent


async def test_the_history_of_a_policy_says_where_all_of_a_long_value_is(platform: FakePlatform) -> None:
    change = v.ValueView("lease_s", 0, 9)
    short = v.SettingEditView(
        number=1, at_ms=1, kind="policy", name="default", act="changed", by="ada", changes=(change,)
    )
    cut = v.ValueView("model", None, '"ha ... (81324 characters)')
    long = msgspec.structs.replace(short, number=2, changes=(cut,), seq=1234)
    platform.answer("GET", "/v1/settings/history", v.SettingEditsView(edits=(long, short)))
    told = (await gangline(platform.url, "policy", "history", "default")).out
    assert "(81324 characters)\n  Of a long value the beginning is shown. All of it is in message 1,234" in told
    assert "`gangline policy show --file`" in told
    assert told.count("Of a long value") == 1, "only where it is so"


async def test_a_list_counts_the_gpus_that_a_job_holds_and_of_who_waits_those_it_asks_for(
    platform: FakePlatform,
) -> None:
    waiting = v.JobView(
        id=7, name="small", state="waiting", slurm="PD", group="lab", user="ada", pool="default", gpu_milli=1000, size=1
    )
    grown = msgspec.structs.replace(waiting, id=8, state="running", sizes={"worker": 16}, gpu_milli_held=16_000)
    platform.answer("GET", "/v1/jobs", v.JobPage(jobs=(grown, waiting)))
    lines = (await gangline(platform.url, "show")).out.splitlines()[1:]
    assert [line.split()[5:7] for line in lines] == [["1", "1"], ["16", "16"]]


async def test_the_queue_writes_an_element_as_everywhere(platform: FakePlatform) -> None:
    line = v.QueueLineView(
        position=1,
        id=50,
        name="sweep",
        group="g",
        user="ada",
        gpu_milli=1000,
        size=1,
        level="normal",
        priority=0,
        waited_ms=1000,
        reason=v.ReasonView(code="Held", sentence="Held by ada."),
        array_job=42,
        array_index=7,
    )
    platform.answer("GET", "/v1/cluster", s.CLUSTER)
    platform.answer("GET", "/v1/queue", v.QueueView(pool="default", waiting=1, lines=(line,)))
    result = await gangline(platform.url, "queue")
    assert result.out.splitlines()[-1].split()[:3] == ["1", "42_7", "sweep"]


async def test_of_a_long_queue_it_is_said_what_those_wait_for_who_are_not_shown(platform: FakePlatform) -> None:
    sums = (
        v.WaitingForView(code="GroupLimit", of="nlp", jobs=4000, gpu_milli=8_000_000, first=40, sentence="Full."),
        v.WaitingForView(code="InsufficientGpus", jobs=1, gpu_milli=8000, first=4711, sentence="No room."),
    )
    whole = msgspec.structs.replace(s.QUEUE, waiting=5000, matching=4001, waiting_for=sums)
    platform.answer("GET", "/v1/cluster", s.CLUSTER)
    platform.answer("GET", "/v1/queue", whole)
    told = await gangline(platform.url, "queue", "--pool", "default")
    assert told.err.splitlines() == [
        "4998 more wait in pool default and are not shown.",
        "What all 4001 wait for:",
        "  4000 GroupLimit of nlp, first job 40",
        "  1 InsufficientGpus, first job 4711",
    ]
    part = await gangline(platform.url, "queue", "--pool", "default", "--user", "ada", "--group", "research")
    assert "4000 more such ones wait in pool default and are not shown." in part.err
    assert platform.asked[-1].query == {"pool": "default", "user": "ada", "group": "research"}
