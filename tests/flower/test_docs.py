"""What docs/with-flower.md shows runs: a model of JAX, a Flower app, an ensemble, and PyTorch where it is installed."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is in an environment of its own: make .venv-bench/.ready")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "with-flower.md").read_text(encoding="utf-8")
# What `flwr run` does with the app of a server.
AS_FLOWER_DOES = """
from flwr.app import Context, RecordDict
server(LocalGrid(app, 20), Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={}))
"""


def shown(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)


def run(program: str, folder: Path) -> str:
    (folder / "shown.py").write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, folder / "shown.py"], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def check_rounds(said: str, runs: int) -> None:
    """Every node has replied in every round. (A round of FedBoost may draw no predictor, and then sends nothing.)"""
    received = re.findall(r"aggregate_train: Received (\d+) results and (\d+) failures", said)
    assert len(received) == 5 * runs
    assert set(received) <= {("20", "0"), ("0", "0")}
    assert received.count(("20", "0")) >= 5 * runs - 2


def test_the_examples_run(tmp_path):
    local, on_flower, ensemble = shown("python")
    said = run(local + on_flower + AS_FLOWER_DOES + ensemble, tmp_path)
    assert "'accuracy'" in said
    check_rounds(said, 3)


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_the_example_with_pytorch_runs(tmp_path):
    local, _, ensemble = shown("python")
    (torch,) = shown("py")
    said = run(local + ensemble + torch, tmp_path)
    check_rounds(said, 3)


def test_the_reference_is_made_from_the_docstrings_and_has_every_name():
    from fedrepro import flower

    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "api_reference.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"run .venv-bench/bin/python tools/api_reference.py: {done.stdout}{done.stderr}"
    page = (ROOT / "docs" / "api" / "flower.md").read_text(encoding="utf-8")
    assert set(flower.__all__) == set(re.findall(r"^## (\w+)$", page, re.M))
