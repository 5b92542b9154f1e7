"""Settings of groups and users as KEY=VALUE: what is written is what is shown, and wrong keys are told."""

import msgspec
import pytest

from gangline_client.commands.policy import _change
from gangline_client.errors import UsageError
from gangline_client.quota_keys import change_group, change_user, differences, group_words, user_words
from gangline_core.cluster import Policy
from gangline_core.groups import BudgetMode, Group, User

CHANGES = [
    "gpus=16",
    "gpus:A100=8",
    "gpu_memory=640Gi",
    "device:rdma=2",
    "borrow.gpus=4",
    "lend.gpus=2",
    "guaranteed.gpus=8",
    "user.queued_jobs=10",
    "user.submits_per_minute=6",
    "priority_max=100",
    "user.priority_max=-5",
    "levels=normal,low",
    "budget=500",
    "budget_mode=safe",
    "season.night=22:00-06:00 Europe/Berlin mon-fri",
    "season.night.gpus=64",
    "season.night.user.gpus=8",
]


def test_what_is_set_is_shown_by_the_same_keys() -> None:
    group = change_group(Group(path="a"), CHANGES)
    words = group_words(group)
    assert words["season.night"] == "22:00-06:00 Europe/Berlin mon,tue,wed,thu,fri"
    assert change_group(Group(path="a"), [f"{key}={value}" for key, value in words.items()]) == group
    assert {change.partition("=")[0] for change in CHANGES} == set(words)


@pytest.mark.parametrize("change", ["budget_zone=Mars/Phobos", "budget_zone=Europe/Berlin", *CHANGES[:-2]])
def test_a_single_change_is_seen_and_so_reaches_the_door_that_refuses_it(change: str) -> None:
    before = Group(path="a")
    after = change_group(before, [change])
    assert differences(group_words(before), group_words(after))


def test_an_empty_value_takes_a_setting_back() -> None:
    group = change_group(Group(path="a"), CHANGES)
    for key in ("gpus", "borrow.gpus", "priority_max", "user.priority_max", "levels", "season.night.gpus"):
        group = change_group(group, [f"{key}="])
        assert key not in group_words(group)
    assert change_group(group, ["season.night="]).seasons == ()
    assert change_group(group, ["budget_mode="]).budget_mode == BudgetMode.START


def test_a_users_class_and_bound_are_settings_like_others() -> None:
    user = change_user(User(name="eve", group="a"), ["class=student", "priority_max=3", "gpus=1"])
    assert user_words(user) == {"gpus": "1", "class": "student", "priority_max": "3"}
    assert differences(user_words(User(name="eve", group="a")), user_words(user))[0] == "class: - -> student"


@pytest.mark.parametrize(
    "change",
    [
        "gpu=1", "device:=1", "cpus:A=1", "season.night.gpus=8", "season.night=at night", "season.night=9:00-9:00",
        "budget_mode=never", "borrow.fish=1", "gpus=many", "priority_max=high",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(change: str) -> None:
    with pytest.raises(UsageError):
        change_group(Group(path="a"), [change])


def test_every_plain_field_of_a_policy_can_be_set_by_its_name() -> None:
    after = _change(Policy(), ["node_tasks_max=200", "hang=10m", "oldest_preempts=true", "elastic=goodput"])
    assert (after.node_tasks_max, after.hang_s, after.oldest_preempts, after.elastic) == (200, 600, True, "goodput")
    with pytest.raises(UsageError, match="no whole number"):
        _change(Policy(), ["node_tasks_max=many"])
    with pytest.raises(UsageError, match="no setting"):
        _change(Policy(), ["version=3"])


def test_a_duration_of_a_policy_is_read_by_either_of_its_names() -> None:
    names = [field.name for field in msgspec.structs.fields(Policy) if field.name.endswith("_s")]
    assert {"yield_wait_s", "starvation_s", "lease_s"} <= set(names)
    for name in names:
        for key in (name, name.removesuffix("_s")):
            assert getattr(_change(Policy(), [f"{key}=1h30m"]), name) == 5400
            assert getattr(_change(Policy(), [f"{key}=90"]), name) == 90
