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
    answer_s_max: float = 15.0
    """How long a change may wait for the admission leader, retries included, before it is answered 503: as a rule
    longer than brokers of which one has died take to elect another leader (4 to 9 s)."""
    heartbeat_s: float = 15.0
    """Event streams say at least this often that they live."""
    shutdown_s: float = 5.0
    """How long open requests may go on when the gateway stops."""
    cert_file: str = ""
    """Certificate chain in PEM; with it and `key_file` the API is spoken over TLS only."""
    key_file: str = ""
    """Key of the certificate, in PEM."""
    oidc_issuer: str = ""
    """Address of an identity provider (OpenID Connect) whose tokens are taken beside our own; https, or loopback."""
    oidc_audience: str = ""
    """What its tokens must be for ("aud"); needed with an issuer."""
    oidc_jwks_url: str = ""
    """Where its public keys are; found in its discovery document when empty."""
    oidc_user_claim: str = "sub"
    """The claim that is the user's name here."""
    oidc_groups_claim: str = "groups"
    """The claim that lists the groups a caller may act in; dots lead below ("realm_access.roles")."""
    oidc_groups_prefix: str = ""
    """Only groups that begin so count, without it."""
    oidc_role_claim: str = ""
    """The claim whose words `oidc_roles` turns into a role; that of the groups when empty."""
    oidc_roles: str = ""
    """Words and the role of who has them, such as "gpu-admins=admin, leads=head"; all others are users."""
    oidc_skew_s: float = 60.0
    """So much may the provider's clock differ from ours."""
    oidc_refresh_s: float = 300.0
    """The provider's keys are looked at again so often; a key it withdraws opens nothing after that."""
