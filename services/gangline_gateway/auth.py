"""Who calls: from the bearer token of a request to a caller."""

from hashlib import sha256
from hmac import compare_digest

from gangline_core.state import State
from gangline_gateway.access import Caller, Role
from gangline_gateway.problems import CHALLENGE, ProblemError

SCHEME = "bearer"
TOKEN_CHARS_MAX = 512
ROLES = {role.value: role for role in Role}


def authenticate(state: State, header: str | None, now: int) -> Caller:
    """The caller of a request with this Authorization header, at this time in ms.

    Raises:
        ProblemError: no token, or one that opens nothing. Unknown, revoked and expired tokens are told apart only in
            the detail, which helps their bearer and nobody else.
    """
    if not header:
        raise _unauthorized("Send the header `Authorization: Bearer <token>`.")
    scheme, _, secret = header.partition(" ")
    secret = secret.strip()
    if scheme.lower() != SCHEME or not secret or len(secret) > TOKEN_CHARS_MAX:
        raise _unauthorized("The Authorization header must be `Bearer <token>`.")
    digest = sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
    # The look-up is by hash, so its time tells nothing about the token; the comparison guards the table itself.
    token = state.kept.tokens.get(digest)
    if token is None or not compare_digest(token.digest, digest):
        raise _unauthorized("The token is not known here.")
    if token.revoked:
        raise _unauthorized("The token was revoked.")
    if token.expires_ms and token.expires_ms <= now:
        raise _unauthorized("The token has expired.")
    role = ROLES.get(token.role)
    if role is None:
        raise _unauthorized("The token's role is not known to this version.")
    return Caller(
        user=token.user, role=role, name=token.name, groups=token.groups, digest=digest, expires_ms=token.expires_ms
    )


def jwt_of(header: str | None) -> str:
    """The token of an Authorization header when it is one of an identity provider by its looks; else ""."""
    if not header or header.count(".") != 2:
        return ""
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == SCHEME else ""


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError("unauthorized", detail, headers=CHALLENGE)
