"""Makes the passwords of the services' NATS users, and the server's list of who may say what.

`python -m gangline_embedded.keys [--apart] FOLDER [AGENT ...]` writes one `<service>.password` per service, once, and
`users.conf`, which a server's settings include; each agent that is named has a user of its own, agent-<name>, and
programs of others share the user `reader`. With --apart each file lies in a folder of its own, `<service>/` and
`nats/`, so that nobody has to be shown another's. Used where the platform does not run its own server, such as
docker-compose.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gangline_embedded.nats_users import one_agent_user, reader_user, service_user
from gangline_kit.ids import Ids, SystemIds
from gangline_kit.nats_server import NatsUser, authorization
from gangline_kit.secret_file import kept_secret
from gangline_wire.rights import OWN, READER, agent_user_name

SECRET_BYTES = 24
FILE_MODE = 0o600
SERVER = "nats"
"""Who reads the list of users, when files lie apart."""
BESIDE = ("grafana",)
"""Others that need a password of their own, and are no users of the bus."""


def make_keys(folder: Path, ids: Ids, agents: Sequence[str] = (), *, apart: bool = False) -> tuple[NatsUser, ...]:
    """Make what is missing in the folder, `apart` in a folder for each reader; passwords that are there stay."""

    def place(owner: str) -> Path:
        found = folder / owner if apart else folder
        found.mkdir(parents=True, exist_ok=True)
        return found

    def password(name: str) -> str:
        return kept_secret(place(name) / f"{name}.password", ids, size_bytes=SECRET_BYTES)

    users = tuple(service_user(name, password=password(name)) for name in OWN)
    users += tuple(one_agent_user(agent, password=password(agent_user_name(agent))) for agent in agents)
    users += (reader_user(password(READER)),)
    for name in BESIDE:
        password(name)
    draft = place(SERVER) / "users.conf.draft"
    draft.unlink(missing_ok=True)
    _write(draft, authorization(users))
    draft.replace(place(SERVER) / "users.conf")
    return users


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def main() -> None:
    """Make the keys in the folder named on the command line."""
    words = [word for word in sys.argv[1:] if word != "--apart"]
    if not words:
        sys.exit("usage: python -m gangline_embedded.keys [--apart] FOLDER [AGENT ...]")
    users = make_keys(Path(words[0]), SystemIds(), agents=words[1:], apart="--apart" in sys.argv)
    sys.stdout.write(f"users of the bus: {', '.join(user.name for user in users)}\n")


if __name__ == "__main__":
    main()
