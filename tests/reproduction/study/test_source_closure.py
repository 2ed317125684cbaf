"""The closure on a small package made for each test, on the real tree, and on a notebook."""

import ast
import importlib
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import fedrepro
from fedrepro.errors import UserError
from fedrepro.reproduction.study.source_closure import source_closure

PACKAGE = "closurepkg"
FILES = {
    "__init__.py": """
        from importlib import import_module
        _HOME_OF = {"Lazy": "closurepkg.lazy", "Near": ".other"}
        def __getattr__(name):
            return getattr(import_module(_HOME_OF[name], __name__), name)
        """,
    "lazy.py": "class Lazy: pass",
    "other.py": "class Near: pass",
    "settings.py": "JOBS = 1",
    "parts/__init__.py": """
        from closurepkg.parts.first import one
        from .second import two, three as drei
        try:
            from .fast import quick
        except ImportError:
            def quick(): return 0
        """,
    "parts/first.py": "from closurepkg.settings import JOBS\nfrom .deep import base\ndef one(): return base()",
    "parts/second.py": "def two(): return 2\ndef three(): return 3",
    "parts/deep.py": "def base():\n    # why\n    return 1",
    "parts/inner.py": "VALUE = 1",
    "computed/__init__.py": """
        from importlib import import_module
        def __getattr__(name):
            return getattr(import_module(f"closurepkg.computed.of_{name}"), name)
        """,
    "computed/of_five.py": "five = 5",
}
# The text of a trial's file to the modules that count beside that file.
TRIALS = {
    # `parts` counts where the route through it does
    "from closurepkg.parts import one\ndef trial(*, seed): return one()": {"parts", "parts.first", "parts.deep"},
    "from .parts import drei": {"parts", "parts.second"},
    "from .parts.second import two": {"parts.second"},
    "from . import other": {"other"},
    "from .parts import inner, two": {"parts", "parts.inner", "parts.second"},
    "from .parts.second import *": {"parts.second"},
    "def trial(*, seed):\n    from .parts.second import two\n    return two()": {"parts.second"},
    "import closurepkg.parts.inner": {"parts.inner"},
    "import closurepkg.parts.inner\ndef trial(*, seed): return closurepkg.parts.inner.VALUE": {"parts.inner"},
    "import closurepkg.other\ndef trial(*, seed): return closurepkg.parts.two()": {"other", "parts", "parts.second"},
    "import closurepkg.parts.second as numbers\ndef trial(*, seed): return numbers.two()": {"parts.second"},
    "import closurepkg.parts as p\ndef trial(*, seed): return p.two()": {"parts", "parts.second"},
    "from closurepkg import parts as p\ndef trial(*, seed): return p.inner.VALUE": {"parts.inner"},
    "from closurepkg import Lazy": {PACKAGE, "lazy"},
    "from closurepkg import Near": {PACKAGE, "other"},
    "import closurepkg\ndef trial(*, seed): return closurepkg.Lazy()": {PACKAGE, "lazy"},
    "import importlib\ndef trial(*, seed): return importlib.import_module('closurepkg.other').Near()": {"other"},
    "if 1 > 0:\n    from .other import Near": {"other"},
    "from closurepkg.settings import JOBS": set(),
}
ALL_PARTS = {"parts.__init__", "parts.first", "parts.second", "parts.deep", "parts.inner"}
TAKE_ALL_PARTS = [
    "from closurepkg import parts\ndef trial(*, seed): return dir(parts)",
    "from closurepkg import parts",
    "from closurepkg.parts import *",
    "from closurepkg.parts import unknown",
    "from closurepkg.parts import quick",  # imported or defined
    "import closurepkg.parts as p\nq = p\ndef trial(*, seed): return q.two()",
]


@pytest.fixture
def package(tmp_path, monkeypatch):
    write(tmp_path / PACKAGE, FILES)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield tmp_path / PACKAGE
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder, texts):
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def closure(module=f"{PACKAGE}.trials", package=PACKAGE):
    """The closure of a function that says it is of that module, which is not imported."""

    def trial(*, seed):
        pass

    trial.__module__ = module
    return source_closure(trial, package)


def modules(module=f"{PACKAGE}.trials"):
    return {name.removeprefix(PACKAGE + ".") for name in closure(module)}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("text", TRIALS)
def test_what_a_file_imports_counts_and_its_siblings_do_not(package, text):
    write(package, {"trials.py": text})
    assert modules() == {"trials"} | TRIALS[text]


@pytest.mark.parametrize("text", TAKE_ALL_PARTS)
def test_all_of_a_package_counts_where_it_is_not_known_what_is_used(package, text):
    write(package, {"trials.py": text})
    assert {"trials"} | ALL_PARTS <= modules()


def test_a_lazy_package_without_a_table_counts_as_a_whole(package):
    write(package, {"trials.py": "from closurepkg.computed import five"})
    assert modules() == {"trials", "computed.__init__", "computed.of_five"}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("parts/deep.py", "# why", "# another reason, and longer"),
        ("parts/deep.py", "return 1", "return (\n        1\n    )"),
        ("parts/deep.py", "def base():", 'def base():\n    """Say it."""'),
        ("parts/__init__.py", "from .second", "from .inner import VALUE\nfrom .second"),
        ("parts/second.py", "return 2", "return 22"),
        ("settings.py", "JOBS = 1", "JOBS = 22"),
    ],
)
def test_edits_that_cannot_change_the_result_do_not_invalidate(package, file, old, new):
    write(package, {"trials.py": "from closurepkg.parts import one"})
    before = closure()
    edit(package / file, old, new)
    assert closure() == before


@pytest.mark.parametrize(
    ("text", "file", "old", "new", "changed"),
    [
        ("from .parts import one", "parts/deep.py", "return 1", "return 1.0", "parts.deep"),
        ("from .parts import one", "parts/first.py", "return base()", "return -base()", "parts.first"),
        ("from .parts import one\nSCALE = 2", "trials.py", "SCALE = 2", "SCALE = 30", "trials"),
        ("from .parts import drei", "parts/__init__.py", "three as drei", "two as drei", "parts"),
        ("from closurepkg import Lazy", "lazy.py", "pass", "x = 1", "lazy"),
    ],
)
def test_edits_of_what_is_imported_invalidate_and_are_named(package, text, file, old, new, changed):
    write(package, {"trials.py": text})
    before = closure()
    edit(package / file, old, new)
    after = closure()
    assert [name for name in after if before.get(name) != after[name]] == [f"{PACKAGE}.{changed}"]


def test_a_users_own_files_are_followed_with_what_their_packages_do(package):
    own = {
        "own_trials.py": "import numpy, own_helper\nfrom own_folder import tool\nfrom own_package.module import f",
        "own_helper.py": "from closurepkg.parts import drei",
        "own_folder/tool.py": "",  # a package without an __init__
        "own_package/__init__.py": "from .setup import settle\nsettle()",
        "own_package/setup.py": "def settle(): pass",
        "own_package/module.py": "def f(): pass",
        "own_package/sibling.py": "",
    }
    write(package.parent, own)
    beside = {"own_helper", "own_folder.tool", "own_package.__init__", "own_package.setup", "own_package.module"}
    assert modules("own_trials") == {"own_trials", "parts", "parts.second"} | beside


def test_packages_that_lead_to_each_other_do_not_go_round_in_circles(package):
    write(
        package,
        {
            "trials.py": "from .there import ball",
            "there/__init__.py": "from closurepkg.back import ball",
            "back/__init__.py": "from closurepkg.there import ball",
        },
    )
    assert modules() == {"trials", "there", "back"}


def test_nothing_is_imported_on_the_way(package):
    write(package, {"trials.py": "from closurepkg.parts import one"})
    before = set(sys.modules)
    assert "parts.deep" in modules()
    assert set(sys.modules) == before


def test_hashes_are_the_same_in_every_process(package):
    write(package, {"trials.py": "from closurepkg.parts import one, drei\ndef trial(*, seed): return one()"})
    program = f"""
import sys; sys.path.insert(0, {str(package.parent)!r})
from fedrepro.reproduction.study.source_closure import source_closure
import closurepkg.trials as trials
print(source_closure(trials.trial, "closurepkg"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(closure())


def test_the_real_tree_leaves_out_what_cannot_change_a_result():
    from study_trials import walk

    found = source_closure(walk)
    assert {"study_trials", "fedrepro.streams", "fedrepro.trace"} <= found.keys()
    assert not [
        name
        for name in found
        if name.startswith(("fedrepro.reproduction", "fedrepro.settings", "fedrepro.files", "fedrepro.cli", "numpy"))
    ]


def test_the_packages_that_trials_pass_through_only_export():
    """What an ``__init__`` of ours does besides is not in any key."""
    checkout = Path(fedrepro.__file__).parent.parent
    folders = ("fedrepro/algorithms", "fedrepro/data", "fedrepro/models", "kernels", "papers")
    files = [path for folder in folders for path in (checkout / folder).rglob("__init__.py")]
    exporting = (ast.Import, ast.ImportFrom, ast.Assign, ast.FunctionDef)
    for path in (checkout / "fedrepro" / "__init__.py", *files):
        body = [node for node in ast.parse(path.read_text()).body if not isinstance(node, exporting)]
        others = [ast.unparse(node) for node in body if not isinstance(getattr(node, "value", None), ast.Constant)]
        assert set(others) <= {"prepare()"}, path  # which is neutral


def test_a_real_algorithm_reaches_its_kernels_but_no_siblings():
    found = closure("fedrepro.algorithms.ensembles.fedboost", "fedrepro")
    assert {"fedrepro.algorithms.ensembles.fedboost", "fedrepro.kernels._jit", "fedrepro.trace"} <= found.keys()
    assert not {"fedrepro.algorithms.ensembles.aflboost", "fedrepro.settings", "fedrepro.cli"} & found.keys()


NOTEBOOK = """
import dataclasses, functools
import numpy as np
from fedrepro import Trace
from fedrepro.streams import stream
SCALE = {scale}
ARRAY = np.array([{array}])
class Model:
    def value(self):
        return {model}
@dataclasses.dataclass
class Point:
    x: int = {default}
MODEL = Model()
POINT = Point()
def first(x):
    return x + {first}
def second(x):
    return x + {second}
LOSSES = dict(first=first)
partly = functools.partial(second, 1)
def adding(amount):
    def add(x):
        return x + amount
    return add
added = adding({amount})
def helper(x, times={times}):
    return SCALE * x + Model().value() + ARRAY.sum()  {comment}
unrelated = {unrelated}
def trial(*, seed):
    counts = np.arange(2)
    loss = helper(stream("test", "init", seed).normal(size=2))
    loss += LOSSES["first"](partly()) + added(MODEL.value() + POINT.x)
    return Trace(dict(round=counts, sent=counts, received=counts, loss=loss))
"""
BASE = dict(scale=2, array=1, model=1, default=1, first=1, second=1, amount=1, times=1, comment="", unrelated=1)


@pytest.fixture(scope="module")
def notebook_closures():
    """By what was changed, the closure of a trial that is defined in a cell of an interactive session of its own."""
    changes = [{}, {"comment": "# a comment", "unrelated": 2}, *({name: 5} for name in BASE if name != "comment")]
    program = f"""
import json, os, sys
import joblib.hashing, numpy, fedrepro.streams, fedrepro.trace  # once for all
from IPython.core.interactiveshell import InteractiveShell
from fedrepro.reproduction.study.source_closure import source_closure
shell = InteractiveShell.instance()
sys.modules["__main__"] = shell.user_module
for cell in {[NOTEBOOK.format(**BASE | change) for change in changes]!r}:
    sys.stdout.flush()
    if os.fork() == 0:
        shell.run_cell(cell).raise_error()
        print(json.dumps(source_closure(shell.user_ns["trial"])), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = map(json.loads, done.stdout.splitlines())
    return dict(zip((" ".join(change) for change in changes), found, strict=True))


def test_a_trial_of_a_notebook_depends_on_the_cells_that_it_uses(notebook_closures):
    base = notebook_closures[""]
    assert {"__main__:trial", "__main__:helper", "__main__:SCALE", "__main__:Model", "fedrepro.streams"} <= base.keys()
    assert "fedrepro.trace" in base and "fedrepro.settings" not in base
    assert notebook_closures["comment unrelated"] == notebook_closures["unrelated"] == base


@pytest.mark.parametrize(
    ("change", "name"),
    {
        "scale": "SCALE",
        "array": "ARRAY",
        "model": "Model",
        "default": "Point",
        "first": "first",
        "second": "second",
        "amount": "adding.<locals>.add",
        "times": "helper",
    }.items(),
)
def test_what_a_notebooks_trial_reaches_is_noticed_when_it_changes(notebook_closures, change, name):
    base, after = notebook_closures[""], notebook_closures[change]
    changed = {key for key in after if after[key] != base.get(key)}
    assert f"__main__:{name}" in changed
    assert changed <= {f"__main__:{name}", "__main__:POINT"}  # an instance has its values from its class


def test_a_function_whose_source_cannot_be_read_is_one_sentence():
    trial = eval("lambda *, seed: seed")
    trial.__module__ = "__main__"
    with pytest.raises(UserError, match=r"^The source of <lambda> cannot be read: define it with def in a notebook"):
        source_closure(trial)
