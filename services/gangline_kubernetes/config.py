"""What the Kubernetes service reads from its environment, once, at start."""

from enum import StrEnum

from msgspec import Struct


class DeviceMode(StrEnum):
    """Who says which GPUs of its node a pod gets."""

    COUNT = "count"
    """The device plugin chooses inside the node; we ask for a number of GPUs."""
    ANNOTATION = "annotation"
    """We name the devices in an annotation and the environment; no device plugin takes part."""
    DRA = "dra"
    """We allocate ResourceClaims ourselves, device by device, and reserve them for the pod."""


class Config(Struct, frozen=True, kw_only=True):
    """Settings of the service for one cluster (GANGLINE_KUBERNETES_*)."""

    cluster: str = "kubernetes"
    """Name of the cluster; its lane is kubernetes.<cluster>."""
    kubeconfig: str = ""
    """File to read the cluster's address and credentials from; empty uses the pod's service account."""
    context: str = ""
    """Context of the kubeconfig; empty uses its current one."""
    mode: DeviceMode = DeviceMode.COUNT
    """How pods get their GPUs: count, annotation or dra."""
    pool: str = "default"
    """Pool of nodes without the label gangline.dev/pool."""
    namespace: str = "gangline-jobs"
    """Where pods of jobs go that did not come from a Job object of the cluster."""
    group: str = ""
    """Group of namespaces without the annotation gangline.dev/group; empty refuses their jobs."""
    user: str = "kubernetes"
    """User of namespaces without the annotation gangline.dev/user."""
    image: str = ""
    """Image of roles that name none; empty refuses to start them."""
    gpu_resource: str = "nvidia.com/gpu"
    """Extended resource that counts whole GPUs."""
    device_class: str = "gpu.nvidia.com"
    """Device class of our ResourceClaims in mode dra; also the DRA driver whose slices describe the GPUs."""
    loss_s: float = 60.0
    """A node that is not Ready for longer is lost: its jobs start elsewhere."""
    api_away_s: float = 60.0
    """An API server that is away for longer keeps new work from its nodes until it answers; what runs goes on."""
    relist_s: float = 600.0
    """How often each watch is compared with a full list."""
    stuck_s: float = 300.0
    """A pod that could not be started for so long (no image, bad settings) counts as failed to start."""
    rest_s: float = 30.0
    """A node that refused a pod is given no more for so long."""
    budget_s: float = 0.0
    """A preempted pod that a PodDisruptionBudget keeps is deleted all the same after so long; 0 never does."""
    in_flight: int = 64
    """Most writes to the API server at the same time."""
    gather_ms: int = 5
    """While facts come fast, they are gathered this long into one message."""
    adopt: bool = True
    """Schedule pods of others that name our scheduler, and objects of others that wait suspended in a queue."""
    suspend: bool = True
    """Suspend objects of others with a queue's name that nobody made suspended, as soon as they are seen."""
    provisioning_class: str = ""
    """Ask an autoscaler for whole jobs that wait for room, by ProvisioningRequests of this class; empty asks none."""
    scheduler_name: str = "gangline"
    """The scheduler name by which pods ask for us."""
