"""L08: at every moment the cluster's own objects say which job holds which device, and never two."""

from tests.kubernetes.house import Object, opened

from dollhouse.loop import live


def holders(pods: list[Object]) -> dict[str, list[str]]:
    """Jobs of the pods that are not over, by device of the one node."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        if pod["status"]["phase"] in ("Pending", "Running"):
            for device in pod["metadata"]["annotations"]["gangline.dev/gpus"].split(","):
                found.setdefault(device, []).append(pod["metadata"]["labels"]["gangline.dev/job"])
    return found


def test_a_device_that_is_handed_over_never_has_two_owners() -> None:
    live(handover_story())


async def handover_story() -> None:
    async with opened(nodes=1, gpus=2, mode="annotation") as house:
        await house.apply("first", gpus=2, command=["sleep"])
        await house.phase("first", "Running")
        await house.apply("second", gpus=2, command=["sleep"])
        await house.phase("second", "Waiting")
        assert holders(house.stored("/pods")) == {"0": ["1"], "1": ["1"]}
        seen: list[dict[str, list[str]]] = []
        house.double.store.listeners.append(lambda change: seen.append(holders(house.stored("/pods"))))
        (pod,) = house.stored("/pods")
        house.kubelets.finish(pod, 0)
        await house.phase("second", "Running")
        assert holders(house.stored("/pods")) == {"0": ["2"], "1": ["2"]}
        assert all(len(jobs) == 1 for moment in seen for jobs in moment.values())
