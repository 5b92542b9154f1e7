"""Who mistypes, asks of what is not there, or has no platform at hand is told the way on."""

from pathlib import Path

import msgspec
import pytest
from tests.client import samples as s
from tests.client.command_line import gangline
from tests.client.fake_platform import FakePlatform, Reply, problem

from gangline_client.quota_keys import GROUP_KEYS, LIMIT_FIELDS, USER_KEYS, change_group, change_user, written_as
from gangline_client.words import command_line
from gangline_core.cluster import Policy
from gangline_core.groups import Group, User
from gangline_wire import views as v

EXAMPLE = Path(__file__).parents[2] / "examples" / "settings" / "policy.yaml"
DONE = v.DoneView(seq=9, version=4)
NOWHERE = {"GANGLINE_URL": "", "GANGLINE_TOKEN": ""}


# --- keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["policy", "set", "default", "orderng=fifo"], "ordering"),
        (["policy", "set", "default", "starvaton=1h"], "starvation"),
        (["quota", "set", "research", "weigth=2"], "weight"),
        (["quota", "set", "research", "guarantee.gpus=2"], "guaranteed.gpus"),
        (["quota", "set", "research", "gups=2"], "gpus"),
        (["quota", "user", "research", "ada", "queued_job=2"], "queued_jobs"),
        (["edit", "7", "priorty=2"], "priority"),
    ],
)
async def test_a_key_that_is_nearly_right_is_told_the_right_one(
    platform: FakePlatform, words: list[str], meant: str
) -> None:
    platform.answer("GET", "/v1/policies/default", v.PolicyView(pool="default", policy=Policy(), version=2))
    platform.answer("GET", "/v1/groups/research", s.RESEARCH)
    platform.answer(
        "GET",
        "/v1/groups/research/users/ada",
        v.UserView(group="research", user="ada", settings=User("ada", "research")),
    )
    result = await gangline(platform.url, *words)
    assert result.code == 2
    assert f"; did you mean {meant}?" in result.err


def test_every_key_that_may_be_meant_can_be_set() -> None:
    for key in GROUP_KEYS:
        change_group(Group(path="g"), [f"{key}="])
    for key in USER_KEYS:
        change_user(User(name="ada", group="g"), [f"{key}="])


async def test_a_setting_without_a_value_is_as_by_default_again(platform: FakePlatform) -> None:
    own = Policy(formula="priority", starvation_s=5, preemption=False, candidates_max=7, ordering="fifo")
    platform.answer("GET", "/v1/policies/default", v.PolicyView(pool="default", policy=own, version=2))
    platform.answer("PUT", "/v1/policies/default", DONE)
    keys = ("formula=", "starvation=", "preemption=", "candidates_max=", "ordering=")
    assert (await gangline(platform.url, "policy", "set", "default", *keys)).code == 0
    (asked,) = platform.requests("PUT", "/v1/policies/default")
    assert msgspec.convert(asked.body, Policy) == Policy()


async def test_a_refused_quota_is_told_by_the_keys_that_people_write(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/groups/research", s.RESEARCH)
    errors = (v.FieldErrorView("guaranteed.gpu_milli", "comes to 20 GPUs; the group's own limit is 10 GPUs"),)
    platform.answer(
        "PUT", "/v1/groups/research", problem(422, "invalid_fields", "Some fields are wrong", errors=errors)
    )
    result = await gangline(platform.url, "quota", "set", "research", "gpus=10")
    assert "  guaranteed.gpus: comes to 20 GPUs" in result.err
    assert "milli" not in result.err


def test_every_field_of_a_group_is_written_as_its_key() -> None:
    assert [written_as(f"{field}.gpu_memory_mib") for field in LIMIT_FIELDS.values()] == [
        *("gpu_memory", "gpu_memory", "guaranteed.gpu_memory", "user.gpu_memory", "job.gpu_memory"),
        *("borrow.gpu_memory", "lend.gpu_memory"),
    ]
    assert [written_as(field) for field in ("limit", "queued_jobs_max", "user_priority_max", "time_limit_s_max")] == [
        *("limit", "queued_jobs", "user.priority_max", "time_limit"),
    ]
    assert written_as("limit.gpu_milli:A100") == "gpus:A100"
    assert written_as("budget_mode") == "budget_mode"


async def test_who_is_no_member_yet_is_told_how_to_become_one(platform: FakePlatform) -> None:
    for change in ([], ["gpus=8"]):
        result = await gangline(platform.url, "quota", "user", "research", "eve", *change)
        assert result.code == 1
        assert "eve is no member of group research" in result.err
        assert "--create" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("set", "new", "--create", "gpus=8", "weight=2"),
        ("set", "new", "gpus=8", "--create", "weight=2"),
        ("set", "--why", "a grant", "new", "--create", "gpus=8", "weight=2"),
        ("set", "new", "gpus=8", "weight=2", "--create"),
    ],
)
async def test_flags_stand_anywhere_among_changes(platform: FakePlatform, words: tuple[str, ...]) -> None:
    platform.answer("PUT", "/v1/groups/new", DONE)
    assert (await gangline(platform.url, "quota", *words)).code == 0
    (asked,) = platform.requests("PUT", "/v1/groups/new")
    assert msgspec.convert(asked.body, Group) == Group(path="new", limit={"gpu_milli": 8000}, weight=2)


async def test_a_member_is_made_with_a_limit_wherever_the_flag_stands(platform: FakePlatform) -> None:
    platform.answer("PUT", "/v1/groups/new/users/ada", DONE, DONE)
    for words in (("--create", "gpus=2"), ("gpus=2", "--create")):
        assert (await gangline(platform.url, "quota", "user", "new", "ada", *words)).code == 0
    for asked in platform.requests("PUT", "/v1/groups/new/users/ada"):
        assert msgspec.convert(asked.body, User) == User(name="ada", group="new", limit={"gpu_milli": 2000})
    assert (await gangline(platform.url, "quota", "user", "new", "ada", "--create", "gpus")).code == 2


async def test_a_group_is_made_without_any_setting_where_that_is_asked_for(platform: FakePlatform) -> None:
    platform.answer("PUT", "/v1/groups/new", DONE)
    assert (await gangline(platform.url, "quota", "set", "new", "--create")).code == 0
    (asked,) = platform.requests("PUT", "/v1/groups/new")
    assert msgspec.convert(asked.body, Group) == Group(path="new")
    refused = await gangline(platform.url, "quota", "set", "new")
    assert (refused.code, "KEY=VALUE" in refused.err) == (2, True)


async def test_a_token_without_a_user_says_whose_jobs_it_submits(platform: FakePlatform) -> None:
    """`token issue hanna` names the token, not the user."""
    platform.answer("GET", "/v1/whoami", s.WHOAMI)
    view = v.TokenView(digest="d" * 64, name="hanna", role="head", user="ada", groups=("research",))
    platform.answer("POST", "/v1/tokens", v.IssuedTokenView(token="gl_1", view=view))
    mine = await gangline(platform.url, "token", "issue", "hanna", "--role", "head", "--group", "research")
    assert mine.out == "gl_1\n"
    assert "Its jobs are ada's, as no --user was named." in mine.err
    hers = await gangline(platform.url, "token", "issue", "hanna", "--user", "hanna")
    assert "no --user" not in hers.err


# --- offline -------------------------------------------------------------------------------------------------


async def test_a_policy_file_is_checked_by_itself_where_there_is_no_platform(tmp_path: Path) -> None:
    sound = await gangline("", "policy", "lint", "--offline", str(EXAMPLE), environ=NOWHERE)
    assert (sound.code, sound.out) == (0, f"{EXAMPLE} is fine.\n")
    assert "was not looked at" in sound.err
    page = tmp_path / "page.yaml"
    page.write_text(
        "groups:\n  a:\n    limit: {gpus: 4}\n    guaranteed: {gpus: 8}\n    grous: {}\n"
        "pools:\n  default:\n    policy: {formula: nope * 2}\n"
    )
    unknown = await gangline("", "policy", "lint", "--offline", str(page), environ=NOWHERE)
    assert unknown.code == 1
    assert f"{page}:5: groups.a.grous" in unknown.err
    page.write_text(page.read_text().replace("    grous: {}\n", ""))
    wrong = await gangline("", "policy", "lint", "--offline", str(page), environ=NOWHERE)
    assert wrong.code == 1
    assert f"{page}:4: groups.a.guaranteed.gpus: comes to 8 GPUs" in wrong.err
    assert f"{page}:7: pools.default.policy.formula: unknown factor 'nope'" in wrong.err
    assert "would be refused" in wrong.err


async def test_a_formula_is_checked_by_itself_as_well() -> None:
    assert (await gangline("", "policy", "lint", "--offline", "priority + age_hours", environ=NOWHERE)).code == 0
    for formula, told in (
        ("priority +", "at its end"),
        ("", "it is empty"),
        ("a b", "at character"),
        ("nope", "unknown"),
    ):
        refused = await gangline("", "policy", "lint", "--offline", formula, environ=NOWHERE)
        assert refused.code == 1
        assert told in refused.err


async def test_who_lints_without_a_platform_is_told_of_offline() -> None:
    result = await gangline("", "policy", "lint", "page.yaml", environ=NOWHERE)
    assert result.code == 1
    assert "`gangline policy lint --offline`" in result.err


# --- jobs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (s.WAITING, "Job 41 is waiting and wrote nothing; it has not run yet."),
        (msgspec.structs.replace(s.WAITING, state="failed"), "Job 41 is failed and wrote nothing; it never ran."),
        (msgspec.structs.replace(s.WAITING, state="running", started_ms=1), "Job 41 is running and wrote nothing."),
    ],
)
async def test_logs_of_a_job_that_wrote_nothing_say_so(platform: FakePlatform, view: v.JobView, told: str) -> None:
    platform.answer("GET", "/v1/jobs/41/logs", Reply(chunks=()))
    platform.answer("GET", "/v1/jobs/41", view)
    result = await gangline(platform.url, "logs", "41")
    assert (result.code, result.out) == (0, "")
    assert result.err == f"{told}\n"


def test_a_command_is_shown_as_one_types_it_and_a_script_by_what_it_does() -> None:
    assert command_line(("python", "-c", "print('a b')")) == "python -c 'print('\"'\"'a b'\"'\"')'"
    script = 'export SLURM_JOB_ID=""; srun() { :; }\n#SBATCH -n 2\n\nmodule load cuda\npython train.py\n'
    assert command_line(("/bin/bash", "-c", script)) == "/bin/bash -c a script of 5 lines: module load cuda ..."
    assert command_line(()) == ""


async def test_what_a_job_uses_is_not_set_against_nothing(platform: FakePlatform) -> None:
    use = v.UseView(gpu_percent=None, window_s=60, memory_mib=9, memory_mib_held=0, cpu_milli=1500, cpu_milli_held=2000)
    platform.answer("GET", "/v1/jobs/7", msgspec.structs.replace(s.RUNNING, use=use))
    platform.answer("GET", "/v1/jobs/7/history", v.HistoryView(job=7, events=()))
    result = await gangline(platform.url, "show", "7")
    assert "  Uses            1.5 of 2 CPUs, 9 MiB of memory at most" in result.out.splitlines()


async def test_a_story_that_is_too_long_is_told_from_both_ends(platform: FakePlatform) -> None:
    told = (*s.HISTORY.events, *s.HISTORY.events)
    first = len(s.HISTORY.events)
    cut = v.HistoryView(job=41, events=told, left_out=1234, left_out_after=first)
    platform.answer("GET", "/v1/jobs/41/history", cut)
    platform.answer("GET", "/v1/jobs/41", s.WAITING)
    lines = (await gangline(platform.url, "show", "41", "--history")).out.splitlines()
    assert lines[1 + first].split() == ["...", "1,234", "more,", "too", "many", "for", "one", "answer"]
    assert len(lines) == 2 + len(told)


async def test_progress_is_told_with_its_age(platform: FakePlatform) -> None:
    said = v.ProgressView(percent=2.5, step=76, told_ms=s.NOW_MS - 12_000)
    platform.answer("GET", "/v1/jobs/7", msgspec.structs.replace(s.RUNNING, progress=said))
    platform.answer("GET", "/v1/jobs/7/history", v.HistoryView(job=7, events=()))
    result = await gangline(platform.url, "show", "7")
    assert "  Progress        2.5 %, step 76 (12s ago)" in result.out.splitlines()
