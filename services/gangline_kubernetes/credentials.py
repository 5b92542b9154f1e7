"""Where the API server is and how we prove who we are: a kubeconfig, or the service account of our own pod."""

import base64
import binascii
import json
import os
import ssl
import subprocess
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_S_MAX = 30.0


class CredentialsError(Exception):
    """There is no way to the cluster; the message says what is missing."""


class Credentials(Struct, frozen=True):
    """One server and one identity; whatever may change while we run is named, not held."""

    server: str
    ca: str = ""
    """Certificates as PEM; empty trusts the system's."""
    is_unverified: bool = False
    server_name: str = ""
    token: str = ""
    token_file: str = ""
    """Read anew for every request that needs it: the kubelet writes fresh tokens there."""
    user: str = ""
    password: str = ""
    certificate_file: str = ""
    key_file: str = ""
    command: tuple[str, ...] = ()
    """Program that prints an ExecCredential."""
    environment: dict[str, str] = {}

    def authorization(self) -> str:
        """The Authorization header as of now.

        Raises:
            CredentialsError: the file or the program gives none.
        """
        if self.token_file:
            try:
                return f"Bearer {Path(self.token_file).read_text(encoding='utf-8').strip()}"
            except OSError as error:
                raise CredentialsError(f"the token cannot be read: {error}") from error
        if self.command:
            return f"Bearer {_from_program(self.command, self.environment)}"
        if self.token:
            return f"Bearer {self.token}"
        if self.user:
            return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return ""

    def tls(self) -> ssl.SSLContext | None:
        """How the server is verified and we are; None for plain HTTP."""
        if not self.server.startswith("https"):
            return None
        context = ssl.create_default_context(cadata=self.ca or None)
        if self.is_unverified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file or None)
        return context


def find(kubeconfig: str, context: str = "") -> Credentials:
    """From the file that is named, else from the pod's service account.

    Raises:
        CredentialsError: neither is there, or the file does not hold what it names.
    """
    if kubeconfig:
        return from_file(Path(kubeconfig).expanduser(), context)
    return from_pod(os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443"))


def from_pod(host: str, port: str, folder: Path = SERVICE_ACCOUNT) -> Credentials:
    """The service account of the pod we run in.

    Raises:
        CredentialsError: we run in no pod.
    """
    if not host or not (folder / "token").exists():
        raise CredentialsError(
            "no cluster: not in a pod with a service account; set GANGLINE_KUBERNETES_KUBECONFIG to a kubeconfig"
        )
    shown = f"[{host}]" if ":" in host else host
    ca = (folder / "ca.crt").read_text(encoding="utf-8")
    return Credentials(server=f"https://{shown}:{port}", ca=ca, token_file=str(folder / "token"))


def from_file(path: Path, context: str = "") -> Credentials:
    """A context of a kubeconfig.

    Raises:
        CredentialsError: the file or something it names is missing.
    """
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError) as error:
        raise CredentialsError(f"kubeconfig {path}: {error}") from error
    chosen = _named(config, "contexts", context or config.get("current-context", ""), path).get("context") or {}
    cluster = _named(config, "clusters", chosen.get("cluster", ""), path).get("cluster") or {}
    user = _named(config, "users", chosen["user"], path).get("user") or {} if chosen.get("user") else {}
    if not cluster.get("server"):
        raise CredentialsError(f"kubeconfig {path}: cluster {chosen.get('cluster')} has no server")
    program = user.get("exec") or {}
    return Credentials(
        server=cluster["server"].rstrip("/"),
        ca=_text(cluster, "certificate-authority", path),
        is_unverified=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name", ""),
        token=user.get("token", ""),
        token_file=_beside(path, user.get("tokenFile", "")),
        user=user.get("username", ""),
        password=user.get("password", ""),
        certificate_file=_file(user, "client-certificate", path),
        key_file=_file(user, "client-key", path),
        command=(program["command"], *(program.get("args") or ())) if program else (),
        environment={one["name"]: one["value"] for one in program.get("env") or ()},
    )


def _named(config: dict[str, Any], section: str, name: str, path: Path) -> dict[str, Any]:
    for one in config.get(section) or ():
        if one.get("name") == name:
            return dict(one)
    raise CredentialsError(f"kubeconfig {path} has no {name!r} under {section}")


def _text(holder: dict[str, Any], field: str, path: Path) -> str:
    """PEM text, from the data in the file or from the file it names."""
    if data := holder.get(f"{field}-data"):
        return _decoded(data, path).decode()
    name = _beside(path, holder.get(field, ""))
    if not name:
        return ""
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise CredentialsError(f"kubeconfig {path}: {error}") from error


def _file(holder: dict[str, Any], field: str, path: Path) -> str:
    """Path of a PEM file; data in the kubeconfig is kept in a private file, since TLS wants one."""
    data = holder.get(f"{field}-data")
    if not data:
        return _beside(path, holder.get(field, ""))
    kept = os.memfd_create(f"gangline-{field}")
    os.write(kept, _decoded(data, path))
    return f"/proc/self/fd/{kept}"


def _decoded(data: str, path: Path) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise CredentialsError(f"kubeconfig {path}: {error}") from error


def _beside(path: Path, name: str) -> str:
    """Relative names are meant beside the kubeconfig."""
    return str(path.parent / name) if name else ""


def _from_program(command: tuple[str, ...], environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            capture_output=True,
            timeout=EXEC_S_MAX,
            check=True,
        )
        return str(json.loads(done.stdout)["status"]["token"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise CredentialsError(f"{command[0]} gave no token: {error}") from error
