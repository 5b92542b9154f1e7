"""Tokens of an identity provider: taken when all about them is right, refused for each single thing that is not."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from tests.make import T0, node, spec
from tests.patience import LONG_S
from tests.services.gateway.conftest import Visitor
from tests.services.gateway.fakes import Setting
from tests.services.gateway.test_streams import put_event

from gangline_gateway.access import Role
from gangline_gateway.config import Config
from gangline_gateway.keys import AGAIN_S, STALE_S_MAX
from gangline_gateway.oidc import roles_of
from gangline_kit.errors import PermanentError

NOW = T0 // 1000
AUDIENCE = "gangline"
RSA = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
CURVE = ec.generate_private_key(ec.SECP256R1())


class Provider:
    """An identity provider on a free port: its discovery document, its keys, and a pen."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"one": RSA[0]}
        self.asked = 0
        self.is_down = False
        self.says: dict[str, Any] | None = None
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discover)
        app.router.add_get("/keys", self._keys)
        self.server = TestServer(app)

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def _discover(self, request: web.Request) -> web.Response:
        return web.json_response(self.says or {"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

    async def _keys(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.is_down:
            return web.Response(status=500)
        return web.json_response({"keys": [_public(kid, key) for kid, key in self.keys.items()]})

    def token(self, *, kid: str = "one", key: Any = None, alg: str = "RS256", **claims: Any) -> str:
        """A token that is right, but for what is said otherwise; None takes a claim away."""
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "una", "exp": NOW + 600, "iat": NOW, "groups": ["gl:t1", "x"]}
        body = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        headers = {"kid": kid} if kid else {}
        return jwt.encode(body, key if key is not None else self.keys[kid], algorithm=alg, headers=headers)


def _public(kid: str, key: Any) -> dict[str, Any]:
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    async with found.server:
        yield found


@pytest.fixture
async def guest(provider: Provider) -> AsyncIterator[Visitor]:
    """A gateway that takes the provider's tokens beside its own."""
    config = Config(
        oidc_issuer=provider.url,
        oidc_audience=AUDIENCE,
        oidc_groups_prefix="gl:",
        oidc_role_claim="realm.roles",
        oidc_roles="gpu-admins=admin, leads=head",
        oidc_refresh_s=300,
    )
    setting = Setting(node("n1"), config=config)
    async with TestClient(TestServer(setting.app)) as client:
        yield Visitor(setting, client)
    await setting.site.tasks.close()


async def whoami(guest: Visitor, token: str, *, status: int = 200) -> Any:
    guest.setting.tokens["guest"] = token
    return await guest.ask("guest", "GET", "/v1/whoami", status=status)


async def test_who_comes_with_the_provider_s_token_is_whom_it_names(guest: Visitor, provider: Provider) -> None:
    found = await whoami(guest, provider.token())
    assert (found["user"], found["role"], found["groups"]) == ("una", "user", ["t1"])
    job = guest.setting.world.submit(spec(group="t1", user="una"))
    foreign = guest.setting.world.submit(spec(group="t1", user="vic"))
    await guest.ask("guest", "GET", f"/v1/jobs/{job}")
    await guest.ask("guest", "GET", f"/v1/jobs/{foreign}", status=404)
    assert (await guest.submit("guest"))["state"] == "waiting"


async def test_tokens_of_ours_are_taken_as_before(guest: Visitor, provider: Provider) -> None:
    assert (await guest.ask("una", "GET", "/v1/whoami"))["user"] == "una"
    assert provider.asked == 0


@pytest.mark.parametrize(
    ("roles", "role"),
    [(["leads"], "head"), (["x", "gpu-admins", "leads"], "admin"), ([], "user"), ("leads", "head"), ({"a": 1}, "user")],
)
async def test_the_words_of_the_role_claim_make_the_role(
    guest: Visitor, provider: Provider, roles: Any, role: str
) -> None:
    assert (await whoami(guest, provider.token(realm={"roles": roles})))["role"] == role


WRONG: dict[str, dict[str, Any]] = {
    "expired": {"exp": NOW - 61},
    "without an end": {"exp": None},
    "an end that is none": {"exp": "soon"},
    "an end beyond numbers": {"exp": 1e300},
    "not yet": {"nbf": NOW + 61},
    "from the future": {"iat": NOW + 61},
    "for somebody else": {"aud": "others"},
    "for nobody": {"aud": None},
    "of another provider": {"iss": "https://elsewhere.example"},
    "of no provider": {"iss": None},
    "for nobody by name": {"sub": None},
    "for an empty name": {"sub": ""},
    "for a name with a line break": {"sub": "una\nroot"},
    "for an endless name": {"sub": "u" * 129},
    "of an unknown key": {"kid": "unknown", "key": RSA[1]},
    "of a foreign key under a known name": {"key": RSA[1]},
    "of another kind of key under a known name": {"key": CURVE, "alg": "ES256"},
    "unsigned": {"key": "", "alg": "none"},
    "with a shared secret": {"key": "s" * 32, "alg": "HS256"},
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_token_is_refused_for_each_single_thing_that_is_wrong(
    guest: Visitor, provider: Provider, what: str
) -> None:
    await whoami(guest, provider.token(**WRONG[what]), status=401)
    assert (await guest.call("guest", "GET", "/v1/whoami")).headers["WWW-Authenticate"].startswith("Bearer")
    assert (await whoami(guest, provider.token()))["user"] == "una", "and a right one is taken"


async def test_the_public_key_is_no_shared_secret(guest: Visitor, provider: Provider) -> None:
    def part(value: bytes) -> bytes:
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    public = RSA[0].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    right = provider.token().split(".")[1].encode()
    signed = part(json.dumps({"alg": "HS256", "kid": "one"}).encode()) + b"." + right
    forged = signed + b"." + part(hmac.new(public, signed, hashlib.sha256).digest())
    await whoami(guest, forged.decode(), status=401)


@pytest.mark.parametrize("junk", ["a.b.c", "..", "é.ü.ß", "e30.e30.e30", "a" * 8050 + ".b.c", '{"alg":1}.x.y'])
async def test_what_is_no_token_is_refused_as_such(guest: Visitor, junk: str) -> None:
    response = await guest.client.get("/v1/whoami", headers={"Authorization": f"Bearer {junk}"})
    assert response.status == 401


async def test_clocks_may_differ_by_a_minute(guest: Visitor, provider: Provider) -> None:
    await whoami(guest, provider.token(exp=NOW - 59, iat=NOW + 59, nbf=NOW + 59))


async def test_a_token_that_was_good_is_so_until_it_expires(guest: Visitor, provider: Provider) -> None:
    token = provider.token(exp=NOW + 30)
    await whoami(guest, token)
    await guest.setting.clock.advance(89)
    await whoami(guest, token)
    await guest.setting.clock.advance(2)
    await whoami(guest, token, status=401)


async def test_a_new_key_is_found_at_once_and_a_withdrawn_one_opens_nothing_later(
    guest: Visitor, provider: Provider
) -> None:
    old = provider.token(exp=NOW + 9000)
    await whoami(guest, old)
    provider.keys = {"two": RSA[1]}
    await guest.setting.clock.advance(AGAIN_S + 1)
    await whoami(guest, provider.token(kid="two"))
    await whoami(guest, old, status=401)


async def test_a_withdrawn_key_is_noticed_though_nobody_names_a_new_one(guest: Visitor, provider: Provider) -> None:
    old = provider.token(exp=NOW + 9000)
    await whoami(guest, old)
    provider.keys = {"two": RSA[1]}
    await guest.setting.clock.advance(301)
    for _ in range(50):
        guest.setting.tokens["guest"] = old
        if (await guest.call("guest", "GET", "/v1/whoami")).status == 401:
            return
    raise AssertionError("the old key opens for ever")


async def test_a_stream_that_a_withdrawn_key_opened_ends(guest: Visitor, provider: Provider) -> None:
    guest.setting.tokens["guest"] = provider.token(exp=NOW + 9000)
    async with await guest.call("guest", "GET", "/v1/events") as stream, asyncio.timeout(LONG_S):
        assert (await stream.content.readline()).startswith(b"retry")
        put_event(guest, "1-0")
        while not (line := await stream.content.readline()).startswith(b"data"):
            assert line, "its key is good"
        provider.keys = {"two": RSA[1]}
        await guest.setting.clock.advance(301)
        # Who looks first has the keys fetched; until they are here, what is known holds.
        number = 1
        while line:
            number += 1
            put_event(guest, f"{number}-0")
            line = await stream.content.readline()


async def test_unknown_keys_make_us_ask_the_provider_once_in_a_while_only(guest: Visitor, provider: Provider) -> None:
    for number in range(20):
        await whoami(guest, provider.token(kid=f"k{number}", key=RSA[1]), status=401)
    assert provider.asked == 1


async def test_a_provider_that_is_away_shuts_out_nobody_whose_key_is_known(guest: Visitor, provider: Provider) -> None:
    await whoami(guest, provider.token())
    provider.is_down = True
    await guest.setting.clock.advance(3600)
    late = {"exp": NOW + 200_000, "iat": NOW}
    assert (await whoami(guest, provider.token(**late)))["user"] == "una"
    await guest.setting.clock.advance(STALE_S_MAX)
    answer = await whoami(guest, provider.token(**late), status=503)
    assert "identity provider" in answer["detail"]
    provider.is_down = False
    await guest.setting.clock.advance(AGAIN_S + 1)
    await whoami(guest, provider.token(**late))


@pytest.mark.parametrize(
    "says",
    [{"issuer": "https://elsewhere.example"}, {"jwks_uri": "http://keys.example/keys"}, {"jwks_uri": 3}, {"issuer": 1}],
)
async def test_a_provider_that_calls_itself_otherwise_or_sends_us_elsewhere_is_not_believed(
    guest: Visitor, provider: Provider, says: dict[str, Any]
) -> None:
    provider.says = {"issuer": provider.url, "jwks_uri": f"{provider.url}/keys", **says}
    await whoami(guest, provider.token(), status=503)
    assert provider.asked == 0


async def test_a_key_without_a_name_serves_when_it_is_the_only_one(guest: Visitor, provider: Provider) -> None:
    await whoami(guest, provider.token(kid="", key=RSA[0]))


async def test_curves_are_keys_too(guest: Visitor, provider: Provider) -> None:
    provider.keys["curve"] = CURVE
    await whoami(guest, provider.token(kid="curve", alg="ES256"))


@pytest.mark.parametrize(
    "config",
    [
        Config(oidc_issuer="https://id.example"),
        Config(oidc_issuer="http://id.example", oidc_audience="gangline"),
        Config(oidc_issuer="https://id.example", oidc_audience="gangline", oidc_jwks_url="file:///keys"),
        Config(oidc_issuer="https://id.example", oidc_audience="gangline", oidc_roles="ops"),
        Config(oidc_issuer="https://id.example", oidc_audience="gangline", oidc_roles="ops=emperor"),
    ],
)
def test_settings_that_would_let_in_anybody_end_the_gateway(config: Config) -> None:
    with pytest.raises(PermanentError):
        Setting(node("n1"), config=config)


def test_words_may_hold_what_roles_do_not() -> None:
    assert roles_of("cn=ops=admin,leads = head,") == {"cn=ops": Role.ADMIN, "leads": Role.HEAD}
