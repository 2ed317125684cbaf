"""The Dockerfile and the devcontainer: linted everywhere, built where there is an engine."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = ROOT / "Dockerfile"


def targets() -> set[str]:
    """What the Makefile can make."""
    return set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.M)) | {".venv/.ready"}


def engine() -> bool:
    """Whether a container engine answers."""
    docker = shutil.which("docker")
    return docker is not None and subprocess.run([docker, "info"], capture_output=True).returncode == 0


def test_the_dockerfile_passes_hadolint():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_has_a_python_that_is_supported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (version,) = re.findall(r"^FROM python:([\d.]+)", DOCKERFILE.read_text(), re.M)
    assert version in SpecifierSet(project["requires-python"])


def test_image_and_devcontainer_call_targets_that_there_are():
    devcontainer = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / devcontainer["build"]["dockerfile"]).resolve() == DOCKERFILE
    text = DOCKERFILE.read_text()
    (by_default,) = re.findall(r'^CMD \["(\S+)"\]', text, re.M)
    called = re.findall(r"(?:RUN |^)make (\S+)", "\n".join([text, devcontainer["postCreateCommand"]]), re.M)
    assert called and {by_default, *called} <= targets()


def test_the_image_is_built_where_there_is_an_engine():
    if not engine():
        pytest.skip("no container engine answers here: the Dockerfile is linted, not built")
    done = subprocess.run(
        ["docker", "build", "--quiet", "--tag", "fedrepro-test", str(ROOT)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
