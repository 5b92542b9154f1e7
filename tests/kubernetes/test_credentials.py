"""Finding the cluster and proving who we are: kubeconfigs, service accounts, tokens that change while we run."""

import base64
import sys
import time
from pathlib import Path

import pytest
import yaml

from gangline_kit.clock import SystemClock
from gangline_kit.errors import OutcomeUnknownError, TemporaryError
from gangline_kubernetes.api import RefusedError
from gangline_kubernetes.credentials import Credentials, CredentialsError, find, from_pod
from gangline_kubernetes.http import HttpTransport
from kubedouble.faults import Fault
from kubedouble.server import Double
from kubedouble.web import serving

PODS = "/api/v1/namespaces/default/pods"


def written(folder: Path, user: dict[str, object], **cluster: object) -> str:
    """A kubeconfig with one context."""
    path = folder / "config"
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://k:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return str(path)


def test_a_kubeconfig_is_read_with_what_stands_beside_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    (tmp_path / "token").write_text("one\n")
    found = find(written(tmp_path, {"tokenFile": "token"}, **{"certificate-authority": "ca.pem"}))
    assert (found.server, found.ca, found.authorization()) == ("https://k:6443", "PEM", "Bearer one")
    (tmp_path / "token").write_text("two")
    assert found.authorization() == "Bearer two", "a token that was renewed is used"


def test_certificates_may_stand_in_the_kubeconfig_itself(tmp_path: Path) -> None:
    data = base64.b64encode(b"CERT").decode()
    found = find(written(tmp_path, {"client-certificate-data": data}, **{"certificate-authority-data": data}))
    assert found.ca == "CERT"
    assert Path(found.certificate_file).read_bytes() == b"CERT"


def test_a_program_may_give_the_token(tmp_path: Path) -> None:
    says = 'print(\'{"status": {"token": "made"}}\')'
    found = find(written(tmp_path, {"exec": {"command": sys.executable, "args": ["-c", says]}}))
    assert found.authorization() == "Bearer made"
    broken = find(written(tmp_path, {"exec": {"command": sys.executable, "args": ["-c", "print()"]}}))
    with pytest.raises(CredentialsError, match="gave no token"):
        broken.authorization()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="no-such-file"):
        find(str(tmp_path / "no-such-file"))
    with pytest.raises(CredentialsError, match="'there' under contexts"):
        find(written(tmp_path, {}), "there")
    with pytest.raises(CredentialsError, match="GANGLINE_KUBERNETES_KUBECONFIG"):
        from_pod("", "443", tmp_path)


def test_a_pods_service_account_is_found(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sa")
    (tmp_path / "ca.crt").write_text("PEM")
    found = from_pod("10.0.0.1", "443", tmp_path)
    assert (found.server, found.authorization()) == ("https://10.0.0.1:443", "Bearer sa")


async def test_a_refused_token_is_read_anew(tmp_path: Path) -> None:
    double = Double(time.time, token="first")
    token = tmp_path / "token"
    token.write_text("first")
    async with serving(double) as url:
        credentials = Credentials(server=url, token_file=str(token))
        async with HttpTransport(credentials, SystemClock()) as transport:
            assert (await transport.send("GET", PODS, "", b"", "", 5.0)).status == 200
            double.tokens = {"second"}
            token.write_text("second")
            assert (await transport.send("GET", PODS, "", b"", "", 5.0)).status == 401
            assert (await transport.send("GET", PODS, "", b"", "", 5.0)).status == 200


async def test_what_happened_to_a_request_is_told_apart() -> None:
    double = Double(time.time)
    async with serving(double) as url, HttpTransport(Credentials(server=url), SystemClock()) as transport:
        double.faults.add(Fault(method="POST", is_cut_after=True))
        body = b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"x"}]}}'
        with pytest.raises(OutcomeUnknownError):
            await transport.send("POST", PODS, "", body, "application/json", 5.0)
        assert double.store.get("/pods", "default", "a") is not None
        lines = transport.stream(PODS, "watch=true&resourceVersion=1", 5.0)
        assert b'"ERROR"' in await anext(lines)
        double.faults.add(Fault(method="GET", status=410, reason="Expired"))
        with pytest.raises(RefusedError, match="fail"):
            await anext(transport.stream(PODS, "watch=true", 5.0))
    async with HttpTransport(Credentials(server="http://127.0.0.1:9"), SystemClock()) as nobody:
        with pytest.raises(TemporaryError, match="cannot be reached"):
            await nobody.send("GET", PODS, "", b"", "", 5.0)
