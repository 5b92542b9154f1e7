"""Groups, pools and policies as objects: what is applied holds, and what cannot be says why."""

from typing import Any

from tests.kubernetes.house import House, condition, opened

from dollhouse.loop import live

ROOT = "/apis/gangline.dev/v1alpha1"


async def apply(house: House, plural: str, name: str, **spec: Any) -> None:
    """Make a settings object."""
    await house.ask("POST", f"{ROOT}/{plural}", {"metadata": {"name": name}, "spec": spec})


async def accepted(house: House, plural: str, name: str) -> dict[str, Any]:
    """The Accepted condition, once there is one."""
    await house.until(lambda: "status" in next(o for o in house.stored(f"gangline.dev/{plural}") if is_called(o, name)))
    return condition(await house.ask("GET", f"{ROOT}/{plural}/{name}"), "Accepted")


def is_called(found: dict[str, Any], name: str) -> bool:
    return bool(found["metadata"]["name"] == name)


def test_groups_pools_and_policies_are_what_their_objects_say() -> None:
    live(settings_story())


async def settings_story() -> None:
    async with opened(nodes=1) as house:
        await apply(house, "groups", "research-vision", path="research/vision", limit={"gpu_milli": 4000}, weight=3)
        await apply(house, "groups", "research", path="research")
        assert (await accepted(house, "groups", "research"))["status"] == "True"
        await house.until(lambda: "research/vision" in house.world.state.kept.groups)
        group = house.world.state.kept.groups["research/vision"]
        assert (group.limit, group.weight) == ({"gpu_milli": 4000}, 3)
        await apply(house, "pools", "extra", levels={"only": 0})
        assert (await accepted(house, "pools", "extra"))["status"] == "True"
        assert house.world.state.kept.pools["extra"].pool.levels == {"only": 0}
        await apply(house, "policyconfigs", "default", ordering="fifo")
        assert (await accepted(house, "policyconfigs", "default"))["status"] == "True"
        assert house.world.state.kept.pools["default"].policy.ordering == "fifo"
        await apply(house, "policyconfigs", "extra", ordering="by-mood")
        said = await accepted(house, "policyconfigs", "extra")
        assert (said["status"], "by-mood" in said["message"]) == ("False", True)
