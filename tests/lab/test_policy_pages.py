"""Policies and quotas for the lab: its own pages, and the administrator's."""

from pathlib import Path

import pytest
import yaml
from tests.make import gpu_amount

from gangline_core.cluster import Policy
from gangline_core.settings.document_change import check
from gangline_core.settings.policy import policy_problem
from gangline_core.state import State
from gangline_lab.policyfile import PolicyFileError, read_groups, read_policy
from gangline_wire.policyfile import parse_policy
from gangline_wire.problem import FieldErrorsError

EXAMPLE = Path(__file__).parents[2] / "examples" / "settings" / "policy.yaml"


def page(folder: Path, text: str) -> Path:
    path = folder / "page.yaml"
    path.write_text(text)
    return path


def test_the_administrators_page_serves_as_it_is_and_says_what_of_it_changes_nothing() -> None:
    rules = read_policy(EXAMPLE)
    assert rules.policies["default"].formula == "level + 1000 * priority + 10 * age_hours"
    assert rules.policies["default"].starvation_s == 7200
    assert next(one for one in rules.groups if one.path == "research").limit["gpu_milli"] == 32_000
    assert {"users", "classes", "prices"} <= set(rules.unheeded)
    assert read_groups(EXAMPLE) == rules.groups


def test_a_page_with_groups_by_name_alone_is_the_administrators(tmp_path: Path) -> None:
    (group,) = read_groups(page(tmp_path, "groups: {vision: {limit: {gpus: 8}}}"))
    assert (group.path, group.limit) == ("vision", gpu_amount(8))


def test_the_labs_own_page_is_read_as_before(tmp_path: Path) -> None:
    rules = read_policy(page(tmp_path, "policy: {ordering: fifo}\ngroups: [{path: v, limit: {gpu_milli: 8000}}]\n"))
    assert rules.policies["default"].ordering == "fifo"
    assert rules.groups[0].limit == gpu_amount(8)
    assert rules.unheeded == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ordering: fifo", "write `policy: {ordering: ...}`"),
        ("polices: {}", 'did you mean "policy"?'),
        ("pools: {default: {policy: {ordering: fastest}}}", "ordering"),
        ("groups: {v: {limit: {gpus: many}}}", "groups.v.limit"),
        ("pools: {default: {policy: {formula: nonsense + 1, ordering: weighted}}}", "nonsense"),
    ],
)
def test_what_makes_no_sense_is_told_with_where_it_stands(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(PolicyFileError, match=r"^page\.yaml: ") as raised:
        read_policy(page(tmp_path, text))
    assert told in str(raised.value)


OF_PAPERS = Path(__file__).parents[2] / "policies" / "papers"
USED = {
    "drf": "dominant_resource",
    "tiresias": "least_attained",
    "gittins": "gittins",
    "qssf": "weighted",
    "gavel-max-min": "gavel",
    "themis": "finish_time",
    "pollux": "goodput",
    "sia": "sia",
    "optimus": "optimus",
    "gandiva": "grow_shrink",
}
"""By page, the ordering or the policy for sizes that is the paper's."""


@pytest.mark.parametrize("path", sorted(OF_PAPERS.parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_we_recommend_can_be_tried_in_the_lab_and_applied_to_a_platform(path: Path) -> None:
    rules = read_policy(path)
    assert rules.policies["default"] != Policy()
    document = parse_policy(yaml.safe_load(path.read_text()))
    assert document.policies == rules.policies
    assert list(check(State(), document, 0)) == []


@pytest.mark.parametrize("path", sorted(OF_PAPERS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_papers_page_is_read_under_its_own_name_and_says_what_it_is(path: Path) -> None:
    rules = read_policy(path)
    assert rules.name == path.stem
    assert rules.about or path.stem == "gangline"
    assert rules.unheeded == ()


@pytest.mark.parametrize("name", sorted(USED))
def test_each_paper_about_order_or_sizes_has_its_page(name: str) -> None:
    policy = read_policy(OF_PAPERS / f"{name}.yaml").policies["default"]
    assert USED[name] in (policy.ordering, policy.elastic)


def test_a_page_of_the_lab_is_told_where_its_policy_stands_on_a_platforms_page_and_serves_there() -> None:
    pages = sorted((EXAMPLE.parents[2] / "policies" / "papers").glob("*.yaml"))
    assert len(pages) > 30
    for path in pages:
        raw = yaml.safe_load(path.read_text())
        with pytest.raises(FieldErrorsError) as refused:
            parse_policy(raw)
        (fault,) = refused.value.errors
        assert fault.path == "policy"
        assert "pools: {default: {policy: {...}}}" in fault.message
        policy = parse_policy({"pools": {"default": {"policy": raw["policy"]}}}).policies["default"]
        assert policy_problem(policy) is None, path.name
