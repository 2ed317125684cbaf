"""What is behind the names of a notebook: the source of functions and classes, and hashes of values."""

import ast
import inspect
import linecache
import textwrap
from types import FunctionType, ModuleType
from typing import Any

from fedrepro.errors import UserError

Code = FunctionType | type | ModuleType


def source_tree(thing: FunctionType | type) -> ast.Module | None:
    """The parsed source of a function or class; None for a class that has none, since it was generated."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError) as problem:
        if isinstance(thing, type):
            return _class_in_its_cell(thing)
        raise UserError(
            f"The source of {thing.__qualname__} cannot be read: define it with def in a notebook cell or in a file."
        ) from problem


def _class_in_its_cell(cls: type) -> ast.Module | None:
    """The source of a class of a notebook: before Python 3.13 `inspect` finds only its methods."""
    for member in vars(cls).values():
        code = getattr(inspect.unwrap(member) if callable(member) else member, "__code__", None)
        text = "".join(linecache.getlines(code.co_filename)) if code else ""
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                return ast.Module([node], [])
    return None


def data_of(cls: type) -> list:
    """What a class without methods of its own consists of, such as a plain dataclass or a named tuple."""
    fields = vars(cls).get("__dataclass_fields__", {}).values()
    return [
        cls.__bases__,
        vars(cls).get("__annotations__"),
        vars(cls).get("_field_defaults"),
        [(field.name, field.default, field.default_factory) for field in fields],
        {name: value for name, value in vars(cls).items() if not name.startswith("_") and not callable(value)},
    ]


def hash_of_value(name: str, value: Any) -> tuple[str, list[Code]]:
    """The hash of a value, and the code that occurs in it, of which only the names are in the hash."""
    from joblib.hashing import NumpyHasher

    class Hasher(NumpyHasher):
        def save(self, obj: Any) -> None:
            code = inspect.unwrap(obj) if callable(obj) else obj
            if isinstance(code, Code):
                occurring.append(code)
                obj = f"{getattr(code, '__module__', '')}.{getattr(code, '__qualname__', code.__name__)}"
            super().save(obj)

    occurring: list[Code] = []
    try:
        found = Hasher().hash(value)
    except Exception as error:  # pickling runs the object's own code, which may raise anything
        raise UserError(
            f"The trial uses the global {name}, whose value cannot be compared between runs: make it a setting, or "
            f"create it inside the trial."
        ) from error
    assert found is not None  # it is only where no digest is asked for
    return found, occurring
