"""The policy file on the command line: lines of what is wrong, what would change, and nothing applied unseen."""

from pathlib import Path

import pytest
import yaml
from tests.client.command_line import gangline
from tests.client.fake_platform import FakePlatform, problem
from tests.make import World

from gangline_client.errors import InputError
from gangline_client.page_lines import read_page
from gangline_client.setting_words import value_words
from gangline_core.cluster import Pool
from gangline_core.settings.document_change import changes, check
from gangline_wire import views as v
from gangline_wire.policyfile import PolicyFileError, parse_policy
from gangline_wire.policyfile_show import field_word, path_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "settings" / "policy.yaml"
CHANGE = v.SettingView(
    kind="group", name="research", field="limit", before={"gpu_milli": 4000}, after={"gpu_milli": 8000}
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text("groups:\n  research:\n    limit:\n      gpus: 8\n")
    return path


async def test_what_is_wrong_is_told_with_its_line(platform: FakePlatform, file: Path) -> None:
    errors = (
        v.FieldErrorView("groups.research.limit.gpus", "comes to 8 GPUs; the limit of the whole cluster is 4 GPUs"),
        v.FieldErrorView("groups.research.heads[0]", "is nobody"),
    )
    platform.answer("PUT", "/v1/settings", problem(422, "invalid_fields", "Some fields are wrong", errors=errors))
    result = await gangline(platform.url, "policy", "lint", str(file))
    assert result.code == 1
    assert result.err.splitlines()[:2] == [
        f"{file}:4: groups.research.limit.gpus: comes to 8 GPUs; the limit of the whole cluster is 4 GPUs",
        f"{file}:2: groups.research.heads[0]: is nobody",
    ]
    assert platform.asked[0].query == {"dry_run": "true"}


async def test_what_is_doubtful_about_a_page_is_noted(platform: FakePlatform, file: Path) -> None:
    doubt = "group research is guaranteed 64 GPUs, and all machines have 8 GPUs"
    platform.answer("PUT", "/v1/settings", v.AppliedView(dry_run=True, doubts=(doubt,)))
    for act in ("lint", "diff"):
        result = await gangline(platform.url, "policy", act, str(file))
        assert (result.code, result.err) == (0, f"Note: {doubt}.\n")


async def test_a_diff_shows_every_setting_and_changes_nothing(platform: FakePlatform, file: Path) -> None:
    platform.answer("PUT", "/v1/settings", v.AppliedView(changes=(CHANGE,), unnamed=("pool default",), dry_run=True))
    result = await gangline(platform.url, "policy", "diff", str(file))
    assert result.out == "group research limit: gpus=4 -> gpus=8\n"
    assert "left as it is: pool default" in result.err
    assert [asked.query for asked in platform.asked] == [{"dry_run": "true"}]


async def test_who_is_new_and_has_no_settings_is_told_as_new(platform: FakePlatform, file: Path) -> None:
    made = v.SettingView(kind="user", name="research:ada", after={})
    platform.answer("PUT", "/v1/settings", v.AppliedView(changes=(made,), dry_run=True))
    assert (await gangline(platform.url, "policy", "diff", str(file))).out == "user research:ada: new\n"


async def test_apply_changes_only_what_was_shown(platform: FakePlatform, file: Path) -> None:
    platform.answer(
        "PUT", "/v1/settings", v.AppliedView(changes=(CHANGE,), version=7), v.AppliedView(changes=(CHANGE,), version=8)
    )
    result = await gangline(platform.url, "policy", "apply", str(file), "--yes", "--reason", "new quarter")
    assert (result.code, result.out) == (0, "Applied 1 change.\n")
    dry, real = platform.asked
    assert dry.query == {"dry_run": "true"}
    assert (real.query, real.headers["If-Match"]) == ({"why": "new quarter"}, '"7"')


async def test_apply_asks_first_and_does_nothing_when_nobody_is_there(platform: FakePlatform, file: Path) -> None:
    platform.answer("PUT", "/v1/settings", v.AppliedView(changes=(CHANGE,), version=7))
    result = await gangline(platform.url, "policy", "apply", str(file))
    assert (result.code, len(platform.asked)) == (2, 1)


async def test_all_settings_are_printed_as_a_policy_file(platform: FakePlatform) -> None:
    page = {"groups": {"research": {"limit": {"gpus": 8}}}}
    platform.answer("GET", "/v1/settings", v.SettingsView(settings=page, version=1))
    result = await gangline(platform.url, "policy", "show", "--file")
    assert yaml.safe_load(result.out) == page


async def test_a_formula_is_still_linted_as_one(platform: FakePlatform) -> None:
    result = await gangline(platform.url, "policy", "lint", "level + 1")
    assert platform.asked[0].path == "/v1/policies/default"
    assert result.code == 1


def test_a_key_that_stands_twice_is_told_with_both_lines() -> None:
    with pytest.raises(InputError, match="p:3: groups stands twice, first in line 1"):
        read_page("groups: {}\npools: {}\ngroups: {}\n", "p")


def test_what_is_no_yaml_is_told_with_its_line() -> None:
    with pytest.raises(InputError, match=r"p:[23]"):
        read_page("groups:\n  a: [1\nb: }", "p")


def test_the_example_is_a_policy_file() -> None:
    document = parse_policy(read_page(EXAMPLE.read_text(), "policy.yaml").document)
    assert {group.path for group in document.groups} >= {"", "research", "research/vision", "teaching"}


def test_a_pool_is_made_by_its_name_and_one_of_which_only_a_policy_is_said_keeps_what_it_is() -> None:
    made = parse_policy({"pools": {"retired": {}, "other": None, "default": {"policy": {"ordering": "fifo"}}}})
    assert made.pools == (Pool(name="retired"), Pool(name="other"))
    assert list(made.policies) == ["default"]


NIGHT = {
    "name": "night",
    "start_minute": 1200,
    "end_minute": 420,
    "days": [0, 1],
    "zone": "Europe/Berlin",
    "limit": {"gpu_milli": 48_000},
}
WINDOW = "2026-11-30T19:46:57Z to 2026-11-30T20:46:57Z"


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("limit", {"gpu_milli": 2000, "memory_mib": 65_536}, "gpus=2, memory=64Gi"),
        ("start_ms", 1_796_068_017_508, "2026-11-30T19:46:57Z"),
        ("grace_ms", 30_000, "30000"),
        ("nodes", ["n1"], '["n1"]'),
        ("levels", {"high": 1000}, '{"high": 1000}'),
        ("limit", {}, "-"),
        ("preemption", False, "false"),
        ("why", "", "-"),
        ("why", "a new grant", "a new grant"),
        ("time_limit", 1_209_600, "14d"),
        ("time_limit", 0, "-"),
        ("prices", {"h100": 2500, "*": 500}, "*=0.5, h100=2.5"),
        ("window", {"start_ms": 1_796_068_017_508, "end_ms": 1_796_071_617_508}, WINDOW),
        ("seasons", [NIGHT], "season.night=20:00-07:00 Europe/Berlin mon,tue, season.night.gpus=48"),
    ],
)
def test_values_of_settings_are_told_as_they_are_written(field: str, value: object, told: str) -> None:
    assert value_words(field, value) == told


def test_prices_and_seasons_of_a_diff_are_told_as_they_are_written() -> None:
    wanted = parse_policy(
        {
            "defaults": {"time_limit": "14d"},
            "groups": {"a": {"seasons": {"night": {"time": "22:00-06:00", "limit": {"gpus": 4}}}}},
            "prices": {"H100": 2.5},
        }
    )
    state = World().state
    told = {
        (change.kind, field_word(change.kind, change.field)): value_words(change.field or change.kind, change.after)
        for change in changes(state, wanted)
    }
    assert told["prices", ""] == "h100=2.5"
    assert told["group", "seasons"].startswith("season.night=22:00-06:00 UTC")
    assert told["group", "time_limit"] == "14d"


def test_a_window_of_which_a_moment_cannot_be_read_is_not_told_to_lack_it() -> None:
    with pytest.raises(PolicyFileError) as refused:
        parse_policy({"windows": {"w": {"from": "2026-12-01", "to": "2026-12-02T00:00:00Z"}}})
    assert [error.path for error in refused.value.errors] == ["windows.w.from"]


def test_every_fault_of_a_policy_is_told_at_once() -> None:
    wanted = parse_policy(
        {
            "pools": {
                "default": {
                    "policy": {"ordering": "fairshare", "formula": "priorty", "placement": "x", "lease": "999d"}
                }
            }
        }
    )
    found = {path_of(one) for one in check(World().state, wanted, 0)}
    assert found == {f"pools.default.policy.{name}" for name in ("ordering", "formula", "placement", "lease_s")}
