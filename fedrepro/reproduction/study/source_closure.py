"""The source that a trial depends on, so that a stored result is used exactly as long as it would come out the same.

- **Whole files.** The module of a trial counts, and every module that it imports, also inside a function, and so on.
  This package and the user's own files are followed; installed libraries count by their versions.
- **Packages are routing tables.** ``from fedrepro.kernels import project_simplex`` leads to the module that defines it
  and not to its siblings, be it exported by an import or by the table (name to module) of a lazy ``__getattr__``. When
  a name cannot be resolved, or the package itself is used as a value, all files of the package count: too much rather
  than too little. An ``__init__`` of the user's own always counts, since it may do more than export.
- **A function of a notebook** has no file. Its source counts, and for every global name that it uses the source or the
  value behind it.

Nothing is imported on the way. Comments, docstrings and formatting do not count.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

from fedrepro.reproduction.study.live_code import data_of, hash_of_value, source_tree
from fedrepro.reproduction.study.python_source import (
    Link,
    Location,
    Source,
    canonical,
    chains,
    digest,
    located,
)

__all__ = ["NEUTRAL", "canonical", "code_closure", "source_closure"]

# What never changes a result: how trials are run, kept and shown, how data are fetched and decoded (the digest of
# their content is in every key), what is said to a call that makes no sense, and how a model is named in a file.
NEUTRAL = (
    "calls",
    "cli",
    "data.sources",
    "files",
    "models.trained.saved_models",
    "reproduction.figures",
    "reproduction.notebooks",
    "reproduction.paper",
    "reproduction.progress",
    "reproduction.provenance",
    "reproduction.report",
    "reproduction.run",
    "reproduction.study.cluster",
    "reproduction.study.study",
    "settings",
)


def source_closure(trial: Callable, package: str = "fedrepro") -> dict[str, str]:
    """Hash per module (or name in a notebook) that the result of ``trial`` depends on.

    Parameters
    ----------
    trial
        A function defined at the top level of a module or of a notebook.
    package
        The package whose neutral modules are left out; its modules are followed like the user's own files.
    """
    closure = _Closure(package)
    if trial.__module__ == "__main__" or located(trial.__module__) is None:
        closure.take_live(trial)
    else:
        closure.reach(trial.__module__, (trial.__name__,))
    return closure.hashes()


def code_closure(modules: Iterable[str], code: Iterable[ast.Module], package: str = "fedrepro") -> dict[str, str]:
    """Hash per module that modules, and pieces of code by their imports, depend on; the pieces are not included.

    Parameters
    ----------
    modules
        Their names.
    code
        Parsed pieces, such as the cells of a notebook.
    package
        As in `source_closure`.
    """
    closure = _Closure(package)
    for module in modules:
        closure.reach(module)
    closure.reach_imports_of(ast.Module([statement for piece in code for statement in piece.body], []))
    return closure.hashes()


class _Closure:
    """What has been reached so far: by module, the digests of all that counts of it."""

    def __init__(self, package: str):
        self._package = package
        self._neutral = {f"{package}.{name}" for name in NEUTRAL}
        self._digests: dict[str, set[str]] = defaultdict(set)
        self._places: dict[str, Location | None] = {}
        self._waiting: list[Link] = []
        self._seen: set = set()

    def hashes(self) -> dict[str, str]:
        while self._waiting:
            self._follow(*self._waiting.pop())
        return {name: digest(" ".join(sorted(self._digests[name]))) for name in sorted(self._digests)}

    def reach(self, module: str, names: tuple[str, ...] = ()) -> None:
        """Take what ``module.name.name…`` depends on."""
        self._waiting.append(Link(module, names))

    def reach_imports_of(self, tree: ast.Module) -> None:
        """Take what a piece of code imports that has no file."""
        self._waiting += Source("__main__", tree).links

    def _follow(self, module: str, names: tuple[str, ...]) -> None:
        if module not in self._places:
            self._places[module] = self._place_if_it_counts(module)
        place = self._places[module]
        names = names if place and place.folders else ()  # a file counts whole
        if place is None or (module, names) in self._seen:
            return
        self._seen.add((module, names))
        if not self._is_ours(module):
            self._waiting += [Link(f"{package}.__init__") for package in _prefixes(module)]
        if place.folders and names:
            self._route(module, *names)
        elif place.folders:
            self._waiting += [Link(f"{module}.{name}") for name in place.submodules()]
        else:
            source = place.source(module)
            self._digests[module].add(source.digest)
            self._waiting += source.links

    def _place_if_it_counts(self, module: str) -> Location | None:
        place = None if self._is_neutral(module) else located(module)
        return place if place and (self._is_ours(module) or place.is_users_own()) else None

    def _is_neutral(self, module: str) -> bool:
        return not self._neutral.isdisjoint(_prefixes(module))

    def _is_ours(self, module: str) -> bool:
        return module.partition(".")[0] == self._package

    def _route(self, package: str, name: str, *rest: str) -> None:
        """Take whatever a name of a package may stand for: something that it imports, a module, a definition."""
        table, submodule = located(f"{package}.__init__"), f"{package}.{name}"
        source = table.source(f"{package}.__init__") if table else Source(package, ast.Module([], []))
        routes = [link for link in source.exports[name] if located(link.module)]
        for link in routes:
            if not self._is_neutral(link.module):
                self._digests[package].add(f"{name} is {link}")
            self.reach(link.module, (*link.names, *rest))
        if located(submodule):
            self.reach(submodule, rest)
        if name in source.defined or not (routes or located(submodule)):
            self.reach(package)

    def take_live(self, thing: FunctionType | type) -> None:
        """Take a function or class of a notebook: its source, what its global names stand for, and what it holds."""
        if id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        home, tree = thing.__module__, source_tree(thing)
        if tree is None:
            assert isinstance(thing, type)
            self._take_value(home, thing.__qualname__, data_of(thing))
            return
        self._digests[f"{home}:{thing.__qualname__}"].add(digest(canonical(tree)))
        self.reach_imports_of(tree)
        known = vars(sys.modules[home])
        for root, *attributes in chains(tree):
            if isinstance(known.get(root), ModuleType):
                self.reach(known[root].__name__, tuple(attributes))
            elif root in known:
                self._take_value(home, root, known[root])
        if isinstance(thing, FunctionType):
            cells = [cell.cell_contents for cell in thing.__closure__ or ()]
            self._take_value(home, thing.__qualname__, [thing.__defaults__, thing.__kwdefaults__, cells])

    def _take_value(self, home: str, name: str, value: Any) -> None:
        """Take a value with the functions, classes and modules that occur in it."""
        content, occurring = hash_of_value(name, value)
        if not (occurring and occurring[0] is value):
            self._digests[f"{home}:{name}"].add(content)
        for code in occurring:
            if isinstance(code, ModuleType):
                self.reach(code.__name__)
            elif code.__module__ == home:
                self.take_live(code)
            elif code.__module__:
                self.reach(code.__module__, tuple(code.__qualname__.split(".")))


def _prefixes(module: str) -> list[str]:
    """``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``."""
    parts = module.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
