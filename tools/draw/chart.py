"""What the chart takes from the code: custom resource definitions, and the rights of the bus' users."""

import json

from gangline_kubernetes.definitions import definitions
from gangline_wire.rights import OWN, READER, reader_rights, rights


def resource_definitions() -> str:
    """All definitions as a JSON list."""
    return json.dumps(definitions(), indent=1, ensure_ascii=False) + "\n"


def bus_users() -> str:
    """Rights of every user of the bus."""
    allowed = {name: rights(name) for name in OWN} | {READER: reader_rights()}
    found = {name: {"publish": one.publish, "subscribe": one.subscribe} for name, one in allowed.items()}
    return json.dumps(found, indent=1) + "\n"
