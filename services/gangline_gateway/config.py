"""What the gateway reads from its environment, once, at start."""

from msgspec import Struct

ANY = "*"


class Config(Struct, frozen=True):
    """Settings of the gateway (GANGLINE_GATEWAY_*)."""

    host: str = "127.0.0.1"
    """Address to listen on; anything but loopback is the administrator's choice."""
    port: int = 8470
    """0 takes a free one."""
    hosts: str = ""
    """Further names under which clients may address us (Host header), with commas between; "*" allows all."""
    origins: str = ""
    """Web origins besides our own whose pages may call us, such as "https://console.example.org"."""
    answer_s_max: float = 10.0
    """How long a change may wait for the admission leader, retries included, before it is answered 503."""
    heartbeat_s: float = 15.0
    """Event streams say at least this often that they live."""
    shutdown_s: float = 5.0
    """How long open requests may go on when the gateway stops."""
    cert_file: str = ""
    """Certificate chain in PEM; with it and `key_file` the API is spoken over TLS only."""
    key_file: str = ""
    """Key of the certificate, in PEM."""
