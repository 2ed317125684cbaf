import builtins
import subprocess
import sys

import pytest

from fedrepro.errors import UserError
from fedrepro.extras import optional


@pytest.mark.parametrize(
    ("module", "extra"),
    [("jax.numpy", "networks"), ("papermill", "papers"), ("distributed", "cluster"), ("flwr.app", "flower")],
)
def test_what_an_extra_brings_is_named_where_it_is_missing(module, extra, monkeypatch):
    real = builtins.__import__

    def without_it(name, *arguments, **options):
        if name.partition(".")[0] == module.partition(".")[0]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_it)
    with pytest.raises(UserError, match=rf"pip install 'fedrepro\[{extra}\]'"), optional():
        __import__(module)


def test_a_module_that_no_extra_brings_is_an_ordinary_error():
    with pytest.raises(ModuleNotFoundError), optional():
        import no_such_module_anywhere  # noqa: F401


def without(module: str, statement: str, *arguments: str) -> subprocess.CompletedProcess:
    """What a statement does in a process that cannot import a module."""
    program = f"import sys; sys.modules[{module!r}] = None\n{statement}"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)


def test_a_model_that_needs_jax_says_how_to_install_it():
    ended = without("jax", "from fedrepro.models import CNN")
    assert ended.stderr.splitlines()[-1] == (
        "fedrepro.errors.UserError: This needs jax, which is not installed: pip install 'fedrepro[networks]'."
    )


def test_strategies_without_flower_say_how_to_install_it():
    ended = without("flwr", "import fedrepro.flower")
    assert ended.stderr.splitlines()[-1] == (
        "fedrepro.errors.UserError: This needs flwr, which is not installed: pip install 'fedrepro[flower]'."
    )


def test_a_command_without_its_extra_ends_in_one_sentence(tmp_path):
    command = "from fedrepro.cli.main import main; main()"
    ended = without("jinja2", command, "report", "--output", str(tmp_path))
    assert ended.returncode == 2
    assert ended.stderr == "fedrepro: This needs jinja2, which is not installed: pip install 'fedrepro[papers]'.\n"
