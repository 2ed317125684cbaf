"""The closure on a small package made for each test, on the real tree, and on a notebook."""

import importlib
import json
import subprocess
import sys
import textwrap

import pytest

from fedrepro.study.closure import source_closure

PACKAGE = "closurepkg"
FILES = {
    "__init__.py": """
        from importlib import import_module
        _HOME_OF = {"Lazy": "closurepkg.lazy", "Other": "closurepkg.other"}
        def __getattr__(name):
            return getattr(import_module(_HOME_OF[name]), name)
        """,
    "lazy.py": "class Lazy: pass",
    "other.py": "class Other: pass",
    "settings.py": "JOBS = 1",
    "parts/__init__.py": """
        from closurepkg.parts.first import one
        from .second import two, three as drei
        """,
    "parts/first.py": "from closurepkg.settings import JOBS\nfrom .deep import base\ndef one(): return base()",
    "parts/second.py": "def two(): return 2\ndef three(): return 3",
    "parts/deep.py": "def base():\n    # why\n    return 1",
    "parts/inner.py": "VALUE = 1",
    "experiments.py": """
        import closurepkg.parts.inner
        import closurepkg.parts as parts
        from closurepkg import Lazy, parts as again
        from closurepkg.parts import one, drei
        SCALE = 2
        TABLE = {}
        TABLE["a"] = 1
        def helper(x):
            return SCALE * x
        def trial(*, seed):
            '''What it does.'''
            return helper(one())
        def attribute_trial(*, seed):
            return parts.two() + TABLE["a"]
        def renamed_trial(*, seed):
            return drei()
        def lazy_trial(*, seed):
            return Lazy()
        def dotted_trial(*, seed):
            return closurepkg.parts.inner.VALUE
        def local_trial(*, seed):
            from .parts.second import two
            return two()
        def whole_trial(*, seed):
            return dir(again)
        def studies():
            return [trial, attribute_trial]
        """,
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield tmp_path / PACKAGE
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def closure(name="trial"):
    return source_closure(getattr(importlib.import_module(f"{PACKAGE}.experiments"), name), PACKAGE)


def modules(name):
    return {module.removeprefix(PACKAGE + ".") for module in closure(name)}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_only_what_the_trial_reaches_counts(package):
    # `parts` is there because the route to `one` is part of the source.
    assert modules("trial") == {"experiments", "parts", "parts.first", "parts.deep"}
    assert modules("attribute_trial") == {"experiments", "parts", "parts.second"}
    assert modules("local_trial") == {"experiments", "parts.second"}
    assert modules("dotted_trial") == {"experiments", "parts.inner"}
    assert modules("lazy_trial") == {"experiments", PACKAGE, "lazy"}


def test_a_package_used_as_a_value_counts_as_a_whole(package):
    assert {"parts", "parts.first", "parts.second", "parts.deep"} <= modules("whole_trial")


def test_a_name_that_cannot_be_resolved_takes_in_the_whole_init(package):
    edit(package / "experiments.py", "return drei()", "return parts.unknown()")
    assert {"parts", "parts.first", "parts.second"} <= modules("renamed_trial")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("parts/deep.py", "# why", "# another reason, and longer"),
        ("parts/deep.py", "return 1", "return (\n        1\n    )"),
        ("parts/deep.py", "def base():", 'def base():\n    """Say it."""'),
        ("experiments.py", "What it does.", "Something else altogether."),
        ("experiments.py", "return [trial, attribute_trial]", "return [attribute_trial]"),
        ("experiments.py", "return drei()", "return drei() + 1"),
        ("parts/second.py", "return 2", "return 22"),
        ("settings.py", "JOBS = 1", "JOBS = 22"),
    ],
)
def test_edits_that_cannot_change_the_result_do_not_invalidate(package, file, old, new):
    before = closure()
    edit(package / file, old, new)
    assert closure() == before


@pytest.mark.parametrize(
    ("trial", "file", "old", "new", "changed"),
    [
        ("trial", "parts/deep.py", "return 1", "return 1.0", "parts.deep"),
        ("trial", "parts/first.py", "return base()", "return -base()", "parts.first"),
        ("trial", "experiments.py", "SCALE = 2", "SCALE = 30", "experiments"),
        ("trial", "experiments.py", "return SCALE * x", "return SCALE + x", "experiments"),
        ("trial", "experiments.py", "return helper(one())", "return helper(-one())", "experiments"),
        ("attribute_trial", "experiments.py", 'TABLE["a"] = 1', 'TABLE["a"] = 22', "experiments"),
        ("renamed_trial", "parts/__init__.py", "three as drei", "two as drei", "parts"),
        ("local_trial", "parts/second.py", "return 2", "return 22", "parts.second"),
        ("lazy_trial", "lazy.py", "pass", "x = 1", "lazy"),
    ],
)
def test_edits_of_reached_code_invalidate_and_are_named(package, trial, file, old, new, changed):
    before = closure(trial)
    edit(package / file, old, new)
    after = closure(trial)
    assert [name for name in after if before.get(name) != after[name]] == [f"{PACKAGE}.{changed}"]


def test_nothing_is_imported_on_the_way(package):
    program = f"""
import sys; sys.path.insert(0, {str(package.parent)!r})
from fedrepro.study.closure import source_closure
import closurepkg.experiments as experiments
before = set(sys.modules)
del sys.modules["closurepkg.parts.deep"]
assert "closurepkg.parts.deep" in source_closure(experiments.trial, "closurepkg")
assert "closurepkg.parts.deep" not in sys.modules
assert not set(sys.modules) - before
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_hashes_are_the_same_in_every_process(package):
    program = f"""
import sys; sys.path.insert(0, {str(package.parent)!r})
from fedrepro.study.closure import source_closure
import closurepkg.experiments as experiments
print(source_closure(experiments.trial, "closurepkg"))
"""
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(closure())


def test_the_real_tree_leaves_out_what_cannot_change_a_result():
    from study_trials import walk

    found = source_closure(walk)
    assert {"study_trials", "fedrepro.streams", "fedrepro.trace"} <= found.keys()
    above = {"fedrepro", "fedrepro.settings", "fedrepro.cli", "fedrepro.paper", "fedrepro.report", "fedrepro.study"}
    assert not above & found.keys()
    assert not [name for name in found if name.startswith(("fedrepro.study", "numpy"))]


def test_a_real_algorithm_reaches_its_kernels_but_no_siblings():
    from fedrepro.algorithms import fedboost

    found = source_closure(fedboost)
    assert {"fedrepro.algorithms.fedboost", "fedrepro.kernels._jit", "fedrepro.trace"} <= found.keys()
    assert not {"fedrepro.algorithms.aflboost", "fedrepro.settings", "fedrepro.cli"} & found.keys()


def test_packages_that_lead_to_each_other_do_not_go_round_in_circles(package):
    edit(package / "parts" / "__init__.py", "from closurepkg.parts.first", CIRCLE + "from closurepkg.parts.first")
    (package / "back").mkdir()
    (package / "back" / "__init__.py").write_text(
        "def there():\n    from closurepkg.parts import here\n    return here\n"
    )
    edit(package / "experiments.py", "return drei()", "return parts.here()")
    assert {"parts", "back"} <= modules("renamed_trial")


CIRCLE = "def here():\n    from closurepkg.back import there\n    return there\n"
NOTEBOOK = """
import numpy as np
from fedrepro import Trace
from fedrepro.streams import stream
SCALE = {scale}
class Model:
    def value(self):
        return {model}
def helper(x):
    return SCALE * x + Model().value()  {comment}
unrelated = {unrelated}
def trial(*, seed):
    counts = np.arange(2)
    loss = helper(stream("test", "init", seed).normal(size=2))
    return Trace(dict(round=counts, sent=counts, received=counts, loss=loss))
"""


def notebook_closure(**changes):
    """The closure of a trial that is defined in cells of an interactive session."""
    cell = NOTEBOOK.format(**{"scale": 2, "model": 1, "comment": "", "unrelated": 1, **changes})
    program = f"""
from IPython.core.interactiveshell import InteractiveShell
import sys, json
shell = InteractiveShell.instance()
sys.modules["__main__"] = shell.user_module
for cell in {cell.split("unrelated")!r}[:1] + ["unrelated" + {cell.split("unrelated")[1]!r}]:
    shell.run_cell(cell).raise_error()
from fedrepro.study.closure import source_closure
print(json.dumps(source_closure(shell.user_ns["trial"])))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_a_trial_of_a_notebook_depends_on_the_cells_that_it_uses():
    base = notebook_closure()
    assert {"__main__:trial", "__main__:helper", "__main__:SCALE", "__main__:Model", "fedrepro.streams"} <= base.keys()
    assert "fedrepro.trace" in base and "fedrepro.settings" not in base
    assert notebook_closure(comment="# a comment", unrelated=2) == base
    for change, name in (({"scale": 3}, "SCALE"), ({"model": 5}, "Model")):
        after = notebook_closure(**change)
        assert [key for key in after if after[key] != base.get(key)] == [f"__main__:{name}"]
