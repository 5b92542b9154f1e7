"""Job objects take secret values from Secrets, and are told when theirs lie open."""

from typing import Any

import msgspec
import pytest
from tests.kubernetes.house import JOBS, condition, opened
from tests.kubernetes.test_owner_words import events

from dollhouse.loop import live
from gangline_kubernetes.secret_refs import Ref, split
from gangline_wire.jobfile import JobFileError
from gangline_wire.requests import SubmitJobs

REF = {"secretKeyRef": {"name": "db", "key": "password"}}


def test_a_variable_is_taken_from_a_secret_that_the_object_only_names() -> None:
    live(named_story())


async def named_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", command=["x"], env={"MODE": "fast"}, secrets={"PW": REF})
        await house.phase("train", "Running")
        (pod,) = await house.pods()
        env = {one["name"]: one for one in pod["spec"]["containers"][0]["env"]}
        assert env["PW"]["valueFrom"] == REF
        assert env["MODE"]["value"] == "fast"
        assert not house.stored("/secrets"), "nothing had to be sealed"
        assert not [one for one in events(house) if one[0] == "SecretsInPlain"]
        assert "password" not in house.job(1).spec.roles[0].environment
        changed = {"spec": {"secrets": {"PW": {"secretKeyRef": {"name": "db", "key": "other"}}}}}
        await house.ask("PATCH", f"{JOBS}/train", changed, "application/merge-patch+json")
        await house.until(lambda: any(reason == "ChangeIgnored" for reason, _ in events(house)))


def test_an_object_with_values_in_plain_is_told_that_they_lie_open() -> None:
    live(plain_story())


async def plain_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", command=["x"], env={"HF_TOKEN": "abcdefgh"})
        await house.phase("train", "Running")
        told = [text for reason, text in events(house) if reason == "SecretsInPlain"]
        assert len(told) == 1
        assert "secretKeyRef" in told[0]


def test_a_reference_that_names_nothing_is_refused_with_its_field() -> None:
    live(wrong_story())


async def wrong_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", command=["x"], secrets={"PW": {"secretKeyRef": {"name": "db"}}})
        found = await house.phase("train", "Refused")
        assert "secrets.PW" in condition(found, "Admitted")["message"]


def test_nobody_but_the_cluster_can_have_a_job_take_secrets_of_a_namespace() -> None:
    live(forged_story())


async def forged_story() -> None:
    from gangline_wire.jobfile import parse_job

    async with opened(nodes=1, namespace="team") as house:
        spec = parse_job({"command": ["x"], "image": "x:1", "name": "thief", "group": "lab", "user": "ann"})
        refs = msgspec.json.encode({"PW": Ref("db", "password")}).decode()
        forged = msgspec.structs.replace(spec, labels={"gangline.dev/secret-refs": refs})
        await house.world.ask(SubmitJobs(jobs=(forged,), submit_id="x", by="ann"))
        await house.until(lambda: bool(house.stored("/pods")))
        (pod,) = house.stored("/pods")
        assert "PW" not in [one["name"] for one in pod["spec"]["containers"][0]["env"]]


@pytest.mark.parametrize(
    "value",
    [{}, {"secretKeyRef": None}, {"secretKeyRef": {"name": "A/B", "key": "k"}}, {**REF, "more": 1}, {"key": "k"}],
)
def test_only_names_of_secrets_are_references(value: Any) -> None:
    with pytest.raises(JobFileError, match="secrets"):
        split({"secrets": {"PW": value}})


def test_values_and_references_may_stand_side_by_side() -> None:
    rest, refs = split({"secrets": {"PW": REF, "OTHER": "plain"}, "command": ["x"]})
    assert rest == {"secrets": {"OTHER": "plain"}, "command": ["x"]}
    assert refs == {"PW": Ref("db", "password")}
    assert split({"secrets": ["A"]}) == ({"secrets": ["A"]}, {})
