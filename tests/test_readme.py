"""What the README says must be what was measured."""

import json
import re
from collections import Counter
from pathlib import Path

from fedrepro.paper import folder, keys

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def reference(key: str) -> dict:
    return json.loads((folder(key) / "reference" / "results.json").read_text(encoding="utf-8"))


def test_every_verdict_in_the_readme_is_the_reference_run_s():
    for key in keys():
        for name, claim in reference(key)["claims"].items():
            assert f"| `{name}` | {claim['verdict'].replace('-', ' ')} |" in README, name


def test_counts_in_the_readme_are_the_reference_run_s():
    for key in keys():
        counted = Counter(claim["verdict"] for claim in reference(key)["claims"].values())
        words = ("reproduced", "partly", "not-reproduced", "not-testable")
        row = re.search(rf"\| \[[^\]]*\]\(papers/{key}/[^|]*\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", README)
        assert row and [int(number) for number in row.groups()] == [counted[word] for word in words]


def test_files_that_the_readme_points_to_are_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target


def test_readme_s_numbers_of_the_losses_are_the_reference_run_s():
    rows = reference("fedboost")["tables"]["horizons"]["rows"]
    columns = reference("fedboost")["tables"]["horizons"]["columns"]
    table = {tuple(row[:3]): dict(zip(columns, row, strict=True)) for row in rows}
    for where, methods in {
        ("synthetic", 5000, "average"): ("weighted", "uniform"),
        ("synthetic", 20000, "average"): ("weighted", "uniform"),
        ("Shakespeare", 400, "last"): ("weighted", "none"),
    }.items():
        assert " against ".join(f"{table[where][method]:.3f}" for method in methods) in README
