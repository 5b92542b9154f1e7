"""Makes the passwords of the services' NATS users, and the server's list of who may say what.

`python -m gangline_embedded.keys FOLDER [AGENT ...]` writes one `<service>.password` per service, once, and
`users.conf`, which a server's settings include; each agent that is named has a user of its own, agent-<name>. Used
where the platform does not run its own server, such as docker-compose.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gangline_embedded.nats_users import one_agent_user, service_user
from gangline_kit.ids import Ids, SystemIds
from gangline_kit.nats_server import NatsUser, authorization
from gangline_wire.rights import OWN, agent_user_name

SECRET_BYTES = 24
FILE_MODE = 0o600
BESIDE = ("grafana",)
"""Others that need a password of their own, and are no users of the bus."""


def make_keys(folder: Path, ids: Ids, agents: Sequence[str] = ()) -> tuple[NatsUser, ...]:
    """Make what is missing in the folder; passwords that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    users = tuple(service_user(name, password=_password(folder / f"{name}.password", ids)) for name in OWN)
    for agent in agents:
        own = _password(folder / f"{agent_user_name(agent)}.password", ids)
        users += (one_agent_user(agent, password=own),)
    for name in BESIDE:
        _password(folder / f"{name}.password", ids)
    draft = folder / "users.conf.draft"
    draft.unlink(missing_ok=True)
    _write(draft, authorization(users))
    draft.replace(folder / "users.conf")
    return users


def _password(path: Path, ids: Ids) -> str:
    if not path.exists():
        _write(path, ids.token(SECRET_BYTES) + "\n")
    return path.read_text(encoding="utf-8").strip()


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def main() -> None:
    """Make the keys in the folder named on the command line."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m gangline_embedded.keys FOLDER [AGENT ...]")
    users = make_keys(Path(sys.argv[1]), SystemIds(), agents=sys.argv[2:])
    sys.stdout.write(f"users of the bus: {', '.join(user.name for user in users)}\n")


if __name__ == "__main__":
    main()
