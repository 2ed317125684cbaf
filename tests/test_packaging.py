"""What is shipped, what is pinned, and that it installs: the wheel, requirements.lock, environment.yml, versions."""

import ast
import itertools
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fedrepro

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SHIPPED = {"fedrepro": "fedrepro", "kernels": "fedrepro/kernels", "papers": "fedrepro/papers"}
STARTED = {"jupyterlab", "pytest", "setuptools"}  # programs to us: `make lab`; in .venv-bench, tests and the build
OF_THE_USER = {"torch"}  # `from_torch` is for whoever has modules of PyTorch; nothing else needs it
PIN = re.compile(
    r"^(?P<name>[a-z0-9.-]+)(?:\[(?P<extras>[a-z0-9,-]+)\])?==(?P<version>[^ ]+)(?: ; [^\\]+)? \\\n"
    r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+",
    re.M,
)


def tracked_files() -> list[Path]:
    """What git tracks, and what it would track with the next commit."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in listed.rstrip("\0").split("\0") if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from an export of the tracked files outside the checkout."""
    export, target = tmp_path_factory.mktemp("export"), tmp_path_factory.mktemp("wheel")
    for name in tracked_files():
        (export / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, export / name)
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, export], cwd=target)
    (built,) = target.glob("*.whl")
    return built


def run(command: list, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pins(lock: str = "requirements.lock") -> list[re.Match]:
    return list(PIN.finditer((ROOT / lock).read_text()))


def closure(*roots: str) -> set[str]:
    """Distributions and all that they need here, by what is installed."""
    found, waiting = set(), [canonicalize_name(root) for root in roots]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            needed = [Requirement(text) for text in metadata.requires(name) or []]
            waiting += [canonicalize_name(one.name) for one in needed if not one.marker or one.marker.evaluate()]
    return found


def test_the_wheel_holds_the_tracked_files_and_nothing_else(wheel):
    expected = {
        f"{SHIPPED[path.parts[0]]}/{'/'.join(path.parts[1:])}" for path in tracked_files() if path.parts[0] in SHIPPED
    }
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_in_an_empty_environment_the_wheel_lists_the_papers_and_copies_their_notebooks(wheel, tmp_path):
    # The other dependencies stay out: a list of papers that loaded numba or pandas would fail here.
    light = closure("numpy", "platformdirs", "pydantic", "typer")
    requirements = tmp_path / "light.txt"
    requirements.write_text("".join(pin[0] for pin in pins() if pin["name"] in light))
    run([sys.executable, "-m", "venv", tmp_path / "env"], cwd=tmp_path)
    pip = [tmp_path / "env/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--require-hashes", "--requirement", requirements], cwd=tmp_path)
    run([*pip, "--no-deps", "--no-index", wheel], cwd=tmp_path)
    listed = run([tmp_path / "env/bin/fedrepro", "list"], cwd=tmp_path)
    papers = {path.parent.name for path in ROOT.glob("papers/*/paper.toml")}
    assert papers >= {"fedboost"}
    assert papers == {line.split()[0] for line in listed.splitlines() if not line.startswith(" ")}
    # What `fedrepro lab` does before it starts JupyterLab.
    copies = "from fedrepro.reproduction import lab; import pathlib; print(*lab.copy(pathlib.Path('lab')).new); "
    copied = run(
        [tmp_path / "env/bin/python", "-c", copies + "print(lab.environment()['JUPYTER_CONFIG_PATH'])"], tmp_path
    )
    notebooks, told = copied.splitlines()
    assert set(notebooks.split()) == {"start.ipynb", *(f"{key}/{key}.ipynb" for key in papers)}
    assert all((tmp_path / "lab" / path).is_file() for path in notebooks.split())
    assert (Path(told) / "labconfig/page_config.json").is_file()


def test_what_is_imported_is_a_dependency_and_the_other_way_round():
    homes = metadata.packages_distributions()
    imported = {
        canonicalize_name(homes.get(name, [name])[0])  # Flower is not installed here
        for path in tracked_files()
        if path.parts[0] in SHIPPED and path.suffix == ".py"
        for name in imported_by(ROOT / path) - sys.stdlib_module_names - {"fedrepro"}
    }
    extras = (PROJECT["optional-dependencies"][name] for name in ("networks", "papers", "privacy", "cluster", "bench"))
    declared = {Requirement(text).name for text in itertools.chain(PROJECT["dependencies"], *extras)} - {"fedrepro"}
    assert (imported - OF_THE_USER) | STARTED == declared


def imported_by(path: Path) -> set[str]:
    """The top-level names of the modules that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-bench.lock"])
def test_the_lock_is_pins_with_hashes_and_names_no_host(lock):
    text = (ROOT / lock).read_text()
    assert "".join(pin[0] for pin in pins(lock)) == text
    assert "://" not in text


LOCKED = [(text, "requirements.lock") for text in PROJECT["dependencies"]] + [
    (text, "requirements-bench.lock" if extra in ("flower", "bench") else "requirements.lock")
    for extra, texts in PROJECT["optional-dependencies"].items()
    for text in texts
    if Requirement(text).name != PROJECT["name"]
]


@pytest.mark.parametrize(("text", "lock"), LOCKED)
def test_the_lock_pins_every_dependency_within_its_limits(text, lock):
    wanted = Requirement(text)
    versions = [pin["version"] for pin in pins(lock) if pin["name"] == wanted.name]
    assert versions
    assert all(wanted.specifier.contains(version) for version in versions)


def test_the_lock_pins_what_is_needed_with_extras_with_these_extras():
    # Of a package with extras that is pinned without them, pip looks at the newest release, and refuses it for its
    # hash: the lock would work until the day of that package's next release.
    installed = {canonicalize_name(one.name): one.version for one in metadata.distributions()}
    extras = {
        pin["name"]: set((pin["extras"] or "").split(","))
        for pin in pins()
        if pin["version"] == installed.get(pin["name"])
    }
    with_extras = {
        (canonicalize_name(wanted.name), extra)
        for name in extras
        for wanted in map(Requirement, metadata.requires(name) or [])
        for extra in wanted.extras
        if not wanted.marker or any(wanted.marker.evaluate({"extra": asked}) for asked in extras[name])
    }
    assert ("coverage", "toml") in with_extras
    assert {(name, extra) for name, extra in with_extras if extra not in extras[name]} == set()


def test_environment_yml_is_up_to_date():
    written = runpy.run_path(str(ROOT / "tools/environment.py"))["environment"]
    assert (ROOT / "environment.yml").read_text() == written((ROOT / "pyproject.toml").read_text())


def test_there_is_one_version():
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1]
    assert fedrepro.__version__ == PROJECT["version"] == cited


def test_the_changelog_begins_with_this_version():
    newest, unreleased = re.search(r"^## ([\d.]+)(, unreleased)?$", (ROOT / "CHANGELOG.md").read_text(), re.M).groups()
    assert PROJECT["version"] == newest + (".dev0" if unreleased else "")


def test_the_papers_are_cited():
    from fedrepro.reproduction.paper import declaration, keys

    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8").partition("\nreferences:\n")[2].split("  - type: ")[1:]
    assert len(cited) == len(keys())
    for about in (declaration(key).paper for key in keys()):
        (entry,) = [one for one in cited if f'title: "{about.title}"\n' in one]
        names = zip(re.findall(r'given-names: "(.+)"', entry), re.findall(r'family-names: "(.+)"', entry), strict=True)
        assert [f"{given} {family}" for given, family in names] == about.authors
        assert f"year: {about.year}\n" in entry and (about.url is None or f'url: "{about.url}"\n' in entry)
