"""Choices that a run makes once: users name them, compiled code compares or calls them by number.

A new choice is one more member of a `Choice`, or one more entry of a table of functions; argument checks, error
messages and numbers follow from there.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any

from fedrepro.kernels._jit import kernel


class Choice(IntEnum):
    """The values of one setting, whose labels are their names in lower case, with hyphens."""

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        """What users may write."""
        return tuple(member.name.lower().replace("_", "-") for member in cls)

    @classmethod
    def number(cls, label: str) -> int:
        """The plain number of a label, which is what kernels take: an enum member would compile them once more."""
        return cls.labels().index(label)


def numbered(name: str, labels: Iterable[str]) -> type[Choice]:
    """A `Choice` of the entries of a table, in their order."""
    # a call of an enum without members makes a class, and no member
    return Choice(name, [label.upper().replace("-", "_") for label in labels], start=0)  # pyright: ignore[reportReturnType]


def by_number(name: str, functions: Iterable[Callable], arguments: str, module: str, file: str) -> Callable:
    """Compile ``name(number, arguments)``, which calls the function with that number.

    The source is a chain of ``if``. A tuple of functions that is looped over with ``literal_unroll`` would spare us the
    text, but it becomes a tuple of function pointers: an experimental feature of Numba that warns, and that keeps the
    compiler from inlining. A closure over functions would not be cached.

    Parameters
    ----------
    functions
        Compiled functions that take the same arguments.
    arguments
        Names of the arguments, separated by commas.
    module, file
        ``__name__`` and ``__file__`` of the caller, under which the compiled code is cached.
    """
    calls = {f"function_{number}": function for number, function in enumerate(functions)}
    branches = [f"    if number == {number}:\n        return {call}({arguments})" for number, call in enumerate(calls)]
    source = "\n".join([f"def {name}(number, {arguments}):", *branches, '    raise ValueError("unknown number.")'])
    namespace: dict[str, Any] = calls | {"__name__": module}
    exec(compile(source, file, "exec"), namespace)
    return kernel(namespace[name])
