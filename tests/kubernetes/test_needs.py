"""What a pod is counted to need: sidecars, containers that run before, the pod as a whole, and what it costs itself."""

from typing import Any

from gangline_kubernetes.adoption import resources_of
from gangline_kubernetes.needs import needs_of
from gangline_kubernetes.nodes import taken_by
from gangline_kubernetes.objects import Container, Meta, Pod, PodSpec, Port, Requirements


def container(restart: str = "", **asked: Any) -> Container:
    """A container that asks for this; names with an underscore stand for a slash."""
    named = {name.replace("gpu", "nvidia.com/gpu"): value for name, value in asked.items()}
    return Container(name="c", resources=Requirements(requests=named), restart_policy=restart)


def pod(*containers: Container, before: tuple[Container, ...] = (), **more: Any) -> Pod:
    """A pod of these."""
    return Pod(metadata=Meta(name="p"), spec=PodSpec(containers=containers, init_containers=before, **more))


def test_containers_count_together() -> None:
    assert needs_of(pod(container(cpu="500m"), container(cpu=1, memory="1Gi"))) == {"cpu": 1500, "memory": 1024}


def test_what_runs_before_counts_when_it_needs_more() -> None:
    small, big = container(cpu="100m", memory="8Gi"), container(cpu=2)
    assert needs_of(pod(big, before=(small,))) == {"cpu": 2000, "memory": 8192}


def test_a_sidecar_counts_with_all_that_starts_after_it() -> None:
    side, first, main = container("Always", cpu=1), container(cpu=3), container(cpu=1)
    assert needs_of(pod(main, before=(side, first)))["cpu"] == 4000, "the sidecar and the one that ends before main"
    assert needs_of(pod(main, before=(first, side)))["cpu"] == 3000, "it was not there yet"
    assert needs_of(pod(container(cpu=5), before=(side, first)))["cpu"] == 6000


def test_the_pods_own_words_and_costs_count() -> None:
    spoken = pod(container(cpu=1), resources=Requirements(requests={"cpu": "4"}), overhead={"cpu": "250m"})
    assert needs_of(spoken)["cpu"] == 4250


def test_pods_of_others_take_what_they_need_and_adopted_ones_ask_for_it() -> None:
    one = pod(container(gpu=1, cpu=1), before=(container(gpu=2),))
    assert taken_by([one, one]).resources == {"nvidia.com/gpu": 4}
    assert resources_of(one).gpu_milli == 2000


def test_storage_and_huge_pages_count_in_mebibytes_and_ports_once() -> None:
    asked = {"ephemeral-storage": "500Gi", "hugepages-2Mi": "1Gi", "memory": "1Gi"}
    ports = (Port(host_port=8080), Port(host_port=0), Port(host_port=53, protocol="UDP"))
    one = Container(name="c", resources=Requirements(requests=asked), ports=ports)
    other = Container(name="d", ports=(Port(host_port=8080),))
    assert needs_of(pod(one, other)) == {
        "ephemeral-storage": 512_000,
        "hugepages-2Mi": 1024,
        "memory": 1024,
        "hostport/TCP/8080": 1,
        "hostport/UDP/53": 1,
    }
