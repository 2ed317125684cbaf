"""What is not installed by default, and which extra brings it."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedrepro.errors import UserError

_EXTRA_OF = {
    "jax": "networks",
    "distributed": "cluster",
    "dp_accounting": "privacy",
    "flwr": "flower",
    **dict.fromkeys(
        (
            "IPython",
            "ipykernel",
            "ipywidgets",
            "jinja2",
            "jupyter_client",
            "jupyterlab",
            "matplotlib",
            "nbconvert",
            "nbformat",
            "papermill",
            "pydantic",
            "rocrate",
            "seaborn",
        ),
        "papers",
    ),
}


@contextmanager
def optional() -> Iterator[None]:
    """Import what an extra brings; where it is missing, one sentence says how to install it.

    Examples
    --------
    >>> with optional():
    ...     import jax
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        sentence = advice(problem)
        if sentence is None:
            raise
        raise UserError(sentence) from None


def advice(problem: ModuleNotFoundError) -> str | None:
    """How to install a missing module; None if no extra of this package brings it."""
    module = (problem.name or "").partition(".")[0]
    extra = _EXTRA_OF.get(module)
    return f"This needs {module}, which is not installed: pip install 'fedrepro[{extra}]'." if extra else None
