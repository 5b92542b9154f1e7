"""Finding the cluster and proving who we are: kubeconfigs, service accounts, tokens that change while we run."""

import base64
import os
import sys
import time
from pathlib import Path

import pytest
import yaml

from gangline_kit.clock import SystemClock
from gangline_kit.errors import OutcomeUnknownError, TemporaryError
from gangline_kubernetes.api import RefusedError
from gangline_kubernetes.credentials import CredentialsError, at, find, from_file, from_pod
from gangline_kubernetes.http import HttpTransport
from kubedouble.faults import Fault
from kubedouble.server import Double
from kubedouble.web import serving

PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}


def written(folder: Path, user: dict[str, object], server: str = "https://k:6443/", **cluster: object) -> str:
    """A kubeconfig with one context."""
    path = folder / "config"
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return str(path)


def read(name: str) -> bytes:
    """What the file holds."""
    return Path(name).read_bytes()


def program(folder: Path, status: str) -> dict[str, object]:
    """A user whose token a program makes, which notes each time it is asked."""
    asked = folder / "asked"
    lines = (
        "import json, pathlib",
        f"path = pathlib.Path({str(asked)!r})",
        "path.write_text(path.read_text() + 'x' if path.exists() else 'x')",
        f"status = {status}",
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'E', 'status': status}))",
    )
    (folder / "program.py").write_text("\n".join(lines))
    version = "client.authentication.k8s.io/v1"
    args = [str(folder / "program.py")]
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": args, "interactiveMode": "Never"}}


async def test_a_kubeconfig_is_read_with_what_stands_beside_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    (tmp_path / "token").write_text("one\n")
    found = await find(written(tmp_path, {"tokenFile": "token"}, **{"certificate-authority": "ca.pem"}))
    held = found.configuration
    assert (held.host, held.ssl_ca_cert) == ("https://k:6443", str(tmp_path / "ca.pem"))
    assert found.authorization == "Bearer one"
    (tmp_path / "token").write_text("two")
    await found.renew()
    assert found.authorization == "Bearer two", "a token that was renewed is used"


async def test_a_proxy_of_the_environment_is_used_unless_the_server_is_excepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "near")
    assert (await find(written(tmp_path, {}))).configuration.proxy == "http://proxy:3128"
    assert (await find(written(tmp_path, {}, "https://near:6443"))).configuration.proxy is None
    named = await find(written(tmp_path, {}, **{"proxy-url": "http://other:1"}))
    assert named.configuration.proxy == "http://other:1"


async def test_certificates_may_stand_in_the_kubeconfig_itself(tmp_path: Path) -> None:
    data = base64.b64encode(b"CERT").decode()
    user: dict[str, object] = {"client-certificate-data": data, "client-key-data": data}
    held = (await find(written(tmp_path, user, **{"certificate-authority-data": data}))).configuration
    assert [read(name) for name in (held.ssl_ca_cert, held.cert_file, held.key_file)] == [b"CERT"] * 3
    assert os.stat(held.key_file).st_mode & 0o077 == 0, "nobody else reads a key"


async def test_a_program_may_give_the_token_and_is_asked_again_when_it_is_refused(tmp_path: Path) -> None:
    far = "{'token': 'made', 'expirationTimestamp': '2999-01-01T00:00:00Z'}"
    found = await find(written(tmp_path, program(tmp_path, far)))
    assert found.authorization == "Bearer made"
    await found.renew()
    asked = (tmp_path / "asked").read_text()
    await found.renew(refused=True)
    assert (tmp_path / "asked").read_text() == asked + "x", "kept while it is good, and asked again when refused"


async def test_a_program_that_gives_nothing_is_named(tmp_path: Path) -> None:
    broken: dict[str, object] = {"exec": {"apiVersion": "v1", "command": sys.executable, "args": ["-c", "print()"]}}
    with pytest.raises(CredentialsError, match="failed to decode"):
        await find(written(tmp_path, broken))


async def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="no-such-file"):
        await find(str(tmp_path / "no-such-file"))
    with pytest.raises(CredentialsError, match="there"):
        await find(written(tmp_path, {}), "there")
    with pytest.raises(CredentialsError, match="GANGLINE_KUBERNETES_KUBECONFIG"):
        await from_pod(tmp_path)


async def test_a_pods_service_account_is_found_and_its_token_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("sa")
    (tmp_path / "ca.crt").write_text("PEM")
    found = await from_pod(tmp_path)
    assert (found.configuration.host, found.authorization) == ("https://[fd00::1]:443", "Bearer sa")
    (tmp_path / "token").write_text("fresh")
    await found.renew()
    assert found.authorization == "Bearer fresh"


async def test_a_refused_token_is_read_anew(tmp_path: Path) -> None:
    double = Double(time.time, token="first")
    (tmp_path / "token").write_text("first")
    async with serving(double) as url:
        credentials = await from_file(Path(written(tmp_path, {"tokenFile": "token"}, server=url)))
        async with HttpTransport(credentials, SystemClock()) as transport:
            assert (await transport.send("GET", PODS, "", None, "", 5.0)).status == 200
            double.tokens = {"second"}
            (tmp_path / "token").write_text("second")
            assert (await transport.send("GET", PODS, "", None, "", 5.0)).status == 401
            assert (await transport.send("GET", PODS, "", None, "", 5.0)).status == 200


async def test_a_token_that_cannot_be_read_is_waited_for(tmp_path: Path) -> None:
    double = Double(time.time, token="first")
    (tmp_path / "token").write_text("wrong")
    async with serving(double) as url:
        credentials = await from_file(Path(written(tmp_path, {"tokenFile": "token"}, server=url)))
        async with HttpTransport(credentials, SystemClock()) as transport:
            assert (await transport.send("GET", PODS, "", None, "", 5.0)).status == 401
            (tmp_path / "token").unlink()
            with pytest.raises(TemporaryError, match="cannot be read"):
                await transport.send("GET", PODS, "", None, "", 5.0)
            (tmp_path / "token").write_text("first")
            assert (await transport.send("GET", PODS, "", None, "", 5.0)).status == 200


async def test_what_happened_to_a_request_is_told_apart() -> None:
    double = Double(time.time)
    async with serving(double) as url, HttpTransport(at(url), SystemClock()) as transport:
        double.faults.add(Fault(method="POST", is_cut_after=True))
        with pytest.raises(OutcomeUnknownError):
            await transport.send("POST", PODS, "", POD, "application/json", 5.0)
        assert double.store.get("/pods", "default", "a") is not None
        lines = transport.stream(PODS, "watch=true&resourceVersion=1", 5.0)
        assert b'"ERROR"' in await anext(lines)
        double.faults.add(Fault(method="GET", status=410, reason="Expired"))
        with pytest.raises(RefusedError, match="fail"):
            await anext(transport.stream(PODS, "watch=true", 5.0))
    async with HttpTransport(at("http://127.0.0.1:9"), SystemClock()) as nobody:
        with pytest.raises(TemporaryError, match="cannot be reached"):
            await nobody.send("GET", PODS, "", None, "", 5.0)


async def test_every_kind_of_write_arrives_as_it_was_meant() -> None:
    double = Double(time.time)
    async with serving(double) as url, HttpTransport(at(url), SystemClock()) as transport:
        made = await transport.send("POST", PODS, "fieldManager=gangline", POD, "application/json", 5.0)
        assert made.status == 201
        notes = {"metadata": {"annotations": {"a": "b=c&d e/f"}}}
        for form in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
            assert (await transport.send("PATCH", f"{PODS}/a", "", notes, form, 5.0)).status == 200
        pod = double.store.get("/pods", "default", "a") or {}
        assert pod["metadata"]["annotations"] == {"a": "b=c&d e/f"}
        picked = await transport.send("GET", PODS, "labelSelector=x%3Dy%2Cz&limit=1", None, "", 5.0)
        assert picked.status == 200
        assert (await transport.send("DELETE", f"{PODS}/a", "", {"gracePeriodSeconds": 0}, "", 5.0)).status == 200
        assert double.store.get("/pods", "default", "a") is None
