"""Importing the package is cheap: what is heavy waits until something needs it."""

import json
import subprocess
import sys

import pytest

HEAVY = {"numba", "jax", "pandas", "matplotlib", "seaborn", "scipy", "IPython", "joblib", "papermill", "nbconvert"}


def after(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after a statement."""
    program = f"""
import json, sys
{statement}
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""
    return set(json.loads(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout))


def test_the_package_loads_nothing_but_itself_and_the_standard_library():
    assert after("import fedrepro") - after("pass") - sys.stdlib_module_names == {"fedrepro"}


def test_the_package_changes_nothing_in_the_process():
    program = """
import os, sys, warnings
before = dict(os.environ), list(warnings.filters), os.getcwd(), sys.path[:]
import fedrepro
assert (dict(os.environ), list(warnings.filters), os.getcwd(), sys.path[:]) == before
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("statement", ["from fedrepro import Federation", "import fedrepro.cli.main"])
def test_federations_and_the_command_line_load_nothing_heavy(statement):
    assert not HEAVY & after(statement)


def test_every_promised_name_is_there():
    after("import fedrepro\nfor name in fedrepro.__all__: getattr(fedrepro, name)")


def test_an_unknown_name_is_an_attribute_error():
    import fedrepro

    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = fedrepro.nothing_of_the_kind


def test_algorithms_that_train_no_networks_do_without_jax():
    assert "jax" not in after("from fedrepro.algorithms import fedavg, fedboost, afl, irm")
    assert "jax" in after("from fedrepro.algorithms import omni_fedge")


def test_every_algorithm_can_be_imported_from_the_package_itself():
    import fedrepro
    from fedrepro import algorithms

    for name in algorithms.__all__:
        assert getattr(fedrepro, name) is getattr(algorithms, name)
