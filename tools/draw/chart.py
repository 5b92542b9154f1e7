"""What the chart takes from the code: definitions and the rights of the bus' users; and the page of its settings."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from draw.markdown import code, document, table
from gangline_kubernetes.definitions import definitions
from gangline_wire.rights import OWN, READER, reader_rights, rights

CHART = Path(__file__).resolve().parent.parent.parent / "helm" / "gangline"
INSTALL = """
```console
$ helm install gangline helm/gangline --namespace gangline --create-namespace
$ helm test gangline --namespace gangline
```

Kubernetes 1.30 or newer, a default storage class, and the image in a registry that the nodes reach. The notes that helm
prints hold the first command; [docs/kubernetes.md](../../docs/kubernetes.md) says what Gangline does on a cluster.
"""
CARE = """
- **Upgrade**: `helm upgrade` replaces services one by one; standbys take over within seconds, and running pods are left
  alone. The custom resource definitions are part of the release, so they are upgraded with it.
- **Keys** are made once, into the Secret `gangline-keys` (of a release with another name: `NAME-gangline-keys`), and an
  upgrade keeps them. What one of yours must hold is said below, at `existingSecret`.
- **A bus of yours** (`nats.enabled: false`) needs JetStream with `sync_interval: always`, a `max_payload` of 8 MB, and
  the users of `files/nats-users.json` with those rights ([the bus](../../docs/integration/nats.md), where it also says
  how the HTTP API stands behind an ingress).
- **Uninstall** keeps definitions, keys and the archive, and takes Gangline's finalizers off (`cluster.leave`).
"""


def resource_definitions() -> str:
    """All definitions as a JSON list."""
    return json.dumps(definitions(), indent=1, ensure_ascii=False) + "\n"


def bus_users() -> str:
    """Rights of every user of the bus."""
    allowed = {name: rights(name) for name in OWN} | {READER: reader_rights()}
    found = {name: {"publish": one.publish, "subscribe": one.subscribe} for name, one in allowed.items()}
    return json.dumps(found, indent=1) + "\n"


def settings_page() -> str:
    """The chart's README, with every setting."""
    schema: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = [(code(path), code(default), note) for path, default, note in _settings(schema, values, "")]
    return document("The chart", INSTALL, CARE, "## Settings", table(("Setting", "Usually", "Meaning"), rows))


def _settings(schema: dict[str, Any], values: Any, above: str) -> Iterator[tuple[str, str, str]]:
    """Path, usual value and meaning of every setting, in the order of the schema."""
    for name, one in schema["properties"].items():
        path, value = f"{above}{name}", values.get(name) if isinstance(values, dict) else None
        if one.get("properties"):
            yield from _settings(one, value, f"{path}.")
        elif name != "global":
            yield path, json.dumps(value), one["description"]
