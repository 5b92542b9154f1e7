"""Which kinds of objects the double serves, and how each is spelled; custom resource definitions add theirs."""

from collections.abc import Iterator

from msgspec import Struct


class Kind(Struct, frozen=True):
    """One served kind in one version."""

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    has_status: bool = False
    counts_generations: bool = False
    subresources: tuple[str, ...] = ()
    custom: bool = False

    @property
    def api_version(self) -> str:
        """Such as "v1" or "batch/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Such as "pods" or "jobs.batch", as error messages call it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage(self) -> str:
        """Key under which all versions of the kind share their objects."""
        return f"{self.group}/{self.plural}"


PARTS_OF_PODS = ("binding", "eviction", "ephemeralcontainers")
BUILT_IN = (
    Kind("", "v1", "namespaces", "Namespace", namespaced=False, short=("ns",), has_status=True),
    Kind("", "v1", "nodes", "Node", namespaced=False, short=("no",), has_status=True),
    Kind("", "v1", "pods", "Pod", short=("po",), has_status=True, subresources=PARTS_OF_PODS),
    Kind("", "v1", "events", "Event", short=("ev",)),
    Kind("", "v1", "secrets", "Secret"),
    Kind("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    Kind("", "v1", "services", "Service", short=("svc",), has_status=True),
    Kind("", "v1", "podtemplates", "PodTemplate"),
    Kind("", "v1", "resourcequotas", "ResourceQuota", short=("quota",), has_status=True),
    Kind("", "v1", "limitranges", "LimitRange", short=("limits",)),
    Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",), has_status=True),
    Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short=("pv",), has_status=True),
    Kind("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",)),
    Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short=("pc",)),
    Kind("coordination.k8s.io", "v1", "leases", "Lease"),
    Kind("batch", "v1", "jobs", "Job", has_status=True, counts_generations=True),
    Kind("apps", "v1", "statefulsets", "StatefulSet", short=("sts",), has_status=True, counts_generations=True),
    Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",), has_status=True),
    Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", has_status=True),
    Kind("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Kind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False, counts_generations=True),
    Kind("resource.k8s.io", "v1alpha3", "devicetaintrules", "DeviceTaintRule", namespaced=False, has_status=True),
    Kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False, counts_generations=True),
    *(
        Kind(
            "admissionregistration.k8s.io",
            "v1",
            f"{name.lower()[:-1]}ies" if name.endswith("y") else f"{name.lower()}s",
            name,
            namespaced=False,
            counts_generations=True,
        )
        for name in (
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
        )
    ),
    Kind(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short=("crd", "crds"),
        has_status=True,
        counts_generations=True,
    ),
)


class Kinds:
    """Every kind that is served now."""

    def __init__(self) -> None:
        """The built-in ones."""
        self._known: dict[tuple[str, str, str], Kind] = {}
        for kind in BUILT_IN:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        """In the order in which they were added."""
        return iter(self._known.values())

    def add(self, kind: Kind) -> None:
        """Serve this kind from now on."""
        self._known[kind.group, kind.version, kind.plural] = kind

    def drop(self, group: str, plural: str) -> None:
        """Serve no version of it any more."""
        for key in [key for key in self._known if (key[0], key[2]) == (group, plural)]:
            del self._known[key]

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind at this address."""
        return self._known.get((group, version, plural))
