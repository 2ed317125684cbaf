"""What the terminal shows fits its width: no name is broken, and sentences have the whole line."""

import json

import pytest
from typer.testing import CliRunner

from fedrepro.cli import layout
from fedrepro.cli.doctor import described
from fedrepro.cli.main import app
from fedrepro.reproduction.paper import keys

REPORT = {
    "target": "x86-64-v3", "versions": "numpy 2.4.6, scipy 1.17.1, numba 0.68.1, llvmlite 0.50.0, jaxlib 0.10.2",
    "system": "Linux x86_64", "cores": 2, "threads": {"JAX": 1}, "caches": {"numba": 14}, "cache_folder": "/cache",
    "store": "/cache/store", "data": {f"data_set_{number}": None for number in range(12)}, "same_bits": True,
    "fingerprints": {"cnn": "1"},
}  # fmt: skip


@pytest.fixture(params=[80, 120])
def told(request, monkeypatch, tmp_path):
    """Call a command in a terminal of so many columns, where nothing was run; its lines."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.chdir(tmp_path)

    def lines(*arguments):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        found = result.stdout.splitlines()
        assert max(map(len, found)) <= request.param
        return found

    return lines


def test_a_claim_and_its_verdict_share_a_line_and_sentences_stand_below(told):
    lines = told("verdicts")
    text = " ".join(" ".join(lines).split())
    rows = json.loads(CliRunner().invoke(app, ["verdicts", "--json"]).stdout)
    for row in rows:
        word = (row["verdict"] or "full run pending").replace("-", " ")
        assert f"  {row['claim']}: {word} (not run here)" in lines
        assert row["sees"] in text and row["why"] in text
    assert [line for line in lines if not line.startswith(" ")][: 2 * len(keys()) : 2] == keys()
    sentences = [line for line in lines if line.startswith("      ")]
    assert sum(map(len, sentences)) / len(sentences) > 50


@pytest.mark.parametrize("arguments", [["list"], ["data", "list"], *(["show", key] for key in keys())])
def test_lists_and_descriptions_fit(told, arguments):
    lines = told(*arguments)
    assert not [line for line in lines if line.endswith("-")]


def test_what_a_machine_computes_with_fits(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = described(REPORT)
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("libraries  numpy") and lines[2] == " " * 11 + "0.10.2"
    assert " ".join(" ".join(lines).split()).count("data_set_") == 12


def test_a_line_is_never_wider_than_can_be_read_and_words_stay_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert layout.width() == 110
    monkeypatch.setenv("COLUMNS", "10")
    assert layout.width() == 40
    assert layout.lines("see https://example.org/a-very-long-address-that-stays-whole now", 4, begin="  x ") == [
        "  x see",
        "    https://example.org/a-very-long-address-that-stays-whole",
        "    now",
    ]
    assert layout.lines("", 2) == [""]
