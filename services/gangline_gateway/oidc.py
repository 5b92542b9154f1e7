"""Bearer tokens of an identity provider (OpenID Connect): who its signature says the caller is.

The provider's public keys (JWKS) are fetched, kept, and looked at again from time to time, or when a token names a key
that is not known yet; what an attacker may make us fetch is bounded. A token opens what its claims say, by the same
roles and groups as our own tokens. Nothing of it is stored.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import jwt
from msgspec import Struct
from msgspec.structs import replace

from gangline_gateway.access import Caller, Role
from gangline_gateway.config import Config
from gangline_gateway.keys import Keys, KeysError
from gangline_gateway.problems import CHALLENGE, ProblemError
from gangline_kit.clock import Clock
from gangline_kit.errors import PermanentError
from gangline_kit.tasks import Tasks

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by key pairs only: with a shared secret, or none, whoever can check a token could make one."""
JWT_CHARS_MAX = 8000
CALLERS_KEPT = 4096
GROUPS_MAX = 256
NAME_CHARS_MAX = 128
STRENGTH = (Role.ADMIN, Role.HEAD, Role.USER, Role.READONLY)
"""Who has several roles has the first of these."""


class Wanted(Struct, frozen=True):
    """What a token must say, and where it says who its bearer is."""

    issuer: str
    audience: str
    user_claim: str
    groups_claim: str
    groups_prefix: str
    role_claim: str
    roles: dict[str, Role]
    skew_s: float


class Issuer:
    """The identity provider whose tokens are taken beside our own."""

    def __init__(self, wanted: Wanted, keys: Keys, clock: Clock) -> None:
        """`keys` are the provider's."""
        self._wanted = wanted
        self._keys = keys
        self._clock = clock
        self._known: dict[str, Caller] = {}
        """Tokens that were checked with the keys of this generation, by hash."""
        self._generation = 0

    async def caller(self, secret: str) -> Caller:
        """Who sends this token.

        Raises:
            ProblemError: it opens nothing here, or nobody can tell now.
        """
        if len(secret) > JWT_CHARS_MAX:
            raise _refused("The token is too long.")
        self._keys.look_again()
        if self._generation != self._keys.generation:
            self._generation = self._keys.generation
            self._known.clear()
        digest = sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
        known = self._known.get(digest)
        if known is None:
            known = self._caller_of(await self._claims(secret))
            known = replace(known, keys=self._keys.generation)
            if len(self._known) >= CALLERS_KEPT:
                self._known.clear()
            self._known[digest] = known
        if known.expires_ms <= self._clock.now_ms():
            raise _refused("The token has expired.")
        return known

    def still_holds(self, caller: Caller) -> bool:
        """True while the keys are those that the caller's token was checked with; else it is to be checked again."""
        self._keys.look_again()
        return caller.keys == self._keys.generation

    async def _claims(self, secret: str) -> Mapping[str, Any]:
        """What the token says, once its signature holds."""
        try:
            head = jwt.get_unverified_header(secret)
        except jwt.PyJWTError:
            raise _refused("The token cannot be read.") from None
        if head.get("alg") not in ALGORITHMS:
            raise _refused("The token's algorithm is not accepted.")
        kid = head.get("kid", "")
        try:
            key = await self._keys.find(kid if isinstance(kid, str) else "")
        except KeysError as error:
            raise ProblemError("unavailable", f"The identity provider: {error}", retry_after_s=5.0) from None
        if key is None:
            raise _refused("The token is signed by no key of the identity provider.")
        try:
            claims = jwt.decode(
                secret,
                key,
                algorithms=ALGORITHMS,
                audience=self._wanted.audience,
                issuer=self._wanted.issuer,
                # Times are looked at below, by the one clock that everything here goes by.
                options={
                    "require": ["exp", "iss", "aud"], "verify_exp": False, "verify_nbf": False, "verify_iat": False,
                },
            )  # fmt: skip
        except jwt.InvalidAudienceError:
            raise _refused("The token is for somebody else.") from None
        except jwt.InvalidIssuerError:
            raise _refused("The token is somebody else's.") from None
        except (jwt.PyJWTError, ValueError, TypeError):
            raise _refused("The token's signature does not hold.") from None
        self._check_times(claims)
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        """The token holds now, give or take what clocks differ."""
        now_s, skew_s = self._clock.now_ms() / 1000, self._wanted.skew_s
        if now_s >= _seconds(claims, "exp") + skew_s:
            raise _refused("The token has expired.")
        if "nbf" in claims and now_s < _seconds(claims, "nbf") - skew_s:
            raise _refused("The token does not hold yet.")
        if "iat" in claims and now_s < _seconds(claims, "iat") - skew_s:
            raise _refused("The token was issued in the future.")

    def _caller_of(self, claims: Mapping[str, Any]) -> Caller:
        wanted = self._wanted
        user = _at(claims, wanted.user_claim)
        if not isinstance(user, str) or not user or len(user) > NAME_CHARS_MAX or not user.isprintable():
            raise _refused(f'The token does not say who you are (claim "{wanted.user_claim}").')
        prefix = wanted.groups_prefix
        groups = [name[len(prefix) :] for name in _words(claims, wanted.groups_claim) if name.startswith(prefix)]
        given = {wanted.roles[word] for word in _words(claims, wanted.role_claim) if word in wanted.roles}
        role = next((each for each in STRENGTH if each in given), Role.USER)
        return Caller(
            user=user,
            role=role,
            name=f"{user} of {wanted.issuer}"[:NAME_CHARS_MAX],
            groups=tuple(sorted({group.strip("/") for group in groups if group.strip("/")}))[:GROUPS_MAX],
            digest=sha256(f"{wanted.issuer}\n{user}".encode()).hexdigest(),
            expires_ms=int((_seconds(claims, "exp") + wanted.skew_s) * 1000),
            is_foreign=True,
        )


def issuer_of(config: Config, clock: Clock, tasks: Tasks) -> Issuer:
    """The identity provider of these settings.

    Raises:
        PermanentError: the settings make no sense.
    """
    wanted = Wanted(
        issuer=config.oidc_issuer,
        audience=config.oidc_audience,
        user_claim=config.oidc_user_claim,
        groups_claim=config.oidc_groups_claim,
        groups_prefix=config.oidc_groups_prefix,
        role_claim=config.oidc_role_claim or config.oidc_groups_claim,
        roles=roles_of(config.oidc_roles),
        skew_s=config.oidc_skew_s,
    )
    return Issuer(wanted, Keys.of(config, clock, tasks), clock)


def roles_of(text: str) -> dict[str, Role]:
    """ "ops=admin, leads=head" as a table.

    Raises:
        PermanentError: it is none.
    """
    table: dict[str, Role] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        word, sign, role = (piece.strip() for piece in part.rpartition("="))
        if not sign or not word or role not in set(Role):
            raise PermanentError(f'GANGLINE_GATEWAY_OIDC_ROLES: "{part.strip()}" is not VALUE=ROLE')
        table[word] = Role(role)
    return table


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """The claim of this name, or below the names joined by dots ("realm_access.roles")."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _words(claims: Mapping[str, Any], path: str) -> list[str]:
    """A claim that is a list of words, or one."""
    found = _at(claims, path)
    if isinstance(found, str):
        return [found]
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    found = claims.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1 << 40:
        raise _refused(f'The token\'s "{name}" is no time.')
    return float(found)


def _refused(detail: str) -> ProblemError:
    return ProblemError("unauthorized", detail, headers=CHALLENGE)
