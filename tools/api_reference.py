"""Write docs/api/: the reference of what users import, made from signatures and docstrings.

``python tools/api_reference.py`` writes the pages; with ``--check`` it says which ones are out of date, and fails. It
needs nothing but the package: the docstrings are in NumPy style, whose sections are turned into lists here. The page of
the strategies for Flower is left as it is where Flower is not installed: ``.venv-bench/bin/python`` writes all pages.
"""

import inspect
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import fedrepro

fedrepro.prepare()
ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "api"
FLOWER = "flower"
# Page -> its title, and where the names stand that it describes (None: all that the module exports).
PAGES: dict[str, tuple[str, list[tuple[str, list[str] | None]]]] = {
    "algorithms": ("Algorithms", [("fedrepro.algorithms", None)]),
    "data": (
        "Data",
        [
            ("fedrepro.data", ["Federation", "load", "find"]),
            ("fedrepro.data.splits", ["iid", "by_class", "shards", "dirichlet", "by_labels", "clusters"]),
        ],
    ),
    "models": (
        "Models",
        [
            (
                "fedrepro.models",
                [
                    "SoftmaxRegression", "LogisticRegression", "LeastSquares", "MLP", "CNN", "OneLogit", "LSTM",
                    "Problem", "from_sklearn", "from_jax", "from_torch",
                ],
            ),
            (
                "fedrepro.models.ensemble",
                ["from_models", "from_predictions", "from_densities", "unigrams", "point_masses", "Ensemble"],
            ),
        ],
    ),
    "results": (
        "Results",
        [
            ("fedrepro", ["Trace", "compare"]),
            ("fedrepro.comparison", ["Comparison"]),
            ("fedrepro.models.trained.evaluation", ["Evaluation", "fairness_of"]),
            ("fedrepro.callbacks", ["EarlyStop", "Checkpoint", "checkpoints", "Progress"]),
            ("fedrepro", ["Study"]),
            ("fedrepro.reproduction.study", ["Runs"]),
        ],
    ),
    "mixtures": (
        "Sets of mixtures Λ",
        [("fedrepro.algorithms.domains", ["Simplex", "CappedSimplex", "Box", "L1Ball", "Hull", "Point", "uniform"])],
    ),
    FLOWER: (
        "With Flower",
        [
            (
                "fedrepro.flower",
                [
                    "AgnosticFedAvg", "ApproxFedAvg", "Scaffold", "AFL", "FedBoost", "EFLFG", "LocalGrid", "client_app",
                    "ensemble_app", "initial_arrays", "Task", "answer_roll_call",
                ],
            )
        ],
    ),
}  # fmt: skip
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.M)
_LISTS = ("Parameters", "Attributes")


def pages() -> dict[Path, str]:
    """File to its content."""
    found = {TARGET / "README.md": _index()}
    for key, (title, places) in PAGES.items():
        if key == FLOWER and find_spec("flwr") is None:
            continue
        parts = [f"# {title}\n", _NOTE]
        for module, names in places:
            home = import_module(module)
            parts += [_described(module, name, getattr(home, name)) for name in names or home.__all__]
        found[TARGET / f"{key}.md"] = "\n".join(parts).rstrip() + "\n"
    return found


_NOTE = "*Made from the docstrings by `tools/api_reference.py`.*\n"


def _index() -> str:
    lines = ["# Reference\n", _NOTE]
    for key, (title, places) in PAGES.items():
        names = [name for module, given in places for name in given or import_module(module).__all__]
        links = ", ".join(f"[`{name}`]({key}.md#{name.lower()})" for name in names)
        lines.append(f"- **[{title}]({key}.md)**: {links}")
    return "\n".join(lines) + "\n"


def _described(module: str, name: str, thing) -> str:
    lines = [f"## {name}\n", _call(f"{module}.{name}", thing), _text(inspect.getdoc(thing) or "")]
    if inspect.isclass(thing):
        for key, method in vars(thing).items():
            function = getattr(method, "__func__", method)
            if key.startswith("_") or not (inspect.isfunction(function) and function.__doc__):
                continue
            lines += [f"### {name}.{key}\n", _call(f"{name}.{key}", function), _text(inspect.getdoc(function) or "")]
    return "\n".join(lines)


def _call(name: str, thing) -> str:
    """The signature, a parameter on each line where it is long."""
    try:
        parameters = [one for one in inspect.signature(thing).parameters.values() if one.name not in ("self", "cls")]
    except ValueError:
        return ""
    shown, keyword_only = [], False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            shown.append("*")
        default = "" if one.default is one.empty else f"={_value(one.default)}"
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        keyword_only = keyword_only or one.kind is one.VAR_POSITIONAL
        shown.append(stars + one.name + default)
    short = f"{name}({', '.join(shown)})"
    long = f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + ")"
    return f"```text\n{short if len(short) <= 100 else long}\n```\n"


def _value(default) -> str:
    return default.__name__ if inspect.isfunction(default) else repr(default)


def _text(doc: str) -> str:
    """A docstring as Markdown."""
    parts = _SECTION.split(doc)
    lines = [_inline(parts[0].strip()) + "\n"]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        lines.append(f"**{title}**\n")
        if title in _LISTS:
            lines.append(_entries(body))
        elif title == "Examples":
            lines.append(f"```text\n{body.strip()}\n```\n")
        else:
            lines.append(_inline(inspect.cleandoc(body)) + "\n")
    return "\n".join(lines)


def _entries(body: str) -> str:
    """Names and their descriptions as a list; names that go over two lines stand together."""
    items: list[tuple[str, list[str]]] = []
    for line in body.rstrip().splitlines():
        if line and not line.startswith(" "):
            if items and not items[-1][1]:
                items[-1] = (f"{items[-1][0]} {line}", [])
            else:
                items.append((line, []))
        elif items and line.strip():
            items[-1][1].append(line.strip())
    return "\n".join(f"- `{name}`: {_inline(' '.join(text))}" for name, text in items) + "\n"


def _inline(text: str) -> str:
    return text.replace("``", "`")


def main() -> int:
    stale = [path for path, text in pages().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        print(*(f"{path.relative_to(ROOT)} is out of date" for path in stale), sep="\n")
        return 1 if stale else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
