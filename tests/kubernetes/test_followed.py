"""A Job object follows jobs of its namespace's user and group only: its status would tell how others' ended."""

from typing import Any

from tests.kubernetes.house import House, opened

from dollhouse.loop import live
from gangline_core.groups import Group, User
from gangline_wire.requests import SetGroup, SetUser

JOBS = "/apis/gangline.dev/v1alpha1/namespaces/others/jobs"


def test_others_jobs_cannot_be_followed_neither_can_elements_of_their_arrays() -> None:
    live(story())


async def story() -> None:
    async with opened(nodes=1) as house:
        await house.world.ask(SetGroup(group=Group(path="apart"), by="root"))
        await house.world.ask(SetUser(user=User(name="otto", group="apart"), by="root"))
        notes = {"gangline.dev/group": "apart", "gangline.dev/user": "otto"}
        await house.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "others", "annotations": notes}})
        await house.apply("train", gpus=1, command=["x"], hold=True)
        await house.apply("many", gpus=1, command=["x"], array="0-3", hold=True)
        await house.phase("many", "Held")
        for number, named in enumerate((1, 2, 3, "2_1", "afterany:2_1", 99)):
            shown = str(named).removeprefix("afterany:")
            assert await refusal(house, f"spy-{number}", named) == f"There is no job {shown} to wait for."
        await house.apply("eval", gpus=1, command=["x"], after=[1, "2_1"])
        await house.phase("eval", "Waiting")


async def refusal(house: House, name: str, after: object) -> str:
    """What an object of the other namespace is told that follows this job."""
    spec: dict[str, Any] = {"gpus": 1, "command": ["x"], "after": [after]}
    body = {"apiVersion": "gangline.dev/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    await house.ask("POST", JOBS, body)

    def status() -> dict[str, Any]:
        return (house.double.store.get("gangline.dev/jobs", "others", name) or {}).get("status") or {}

    await house.until(lambda: "message" in status(), what=f"{name} to be answered, is {status()}")
    return str(status()["message"])
