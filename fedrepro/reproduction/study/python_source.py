"""Reads Python files without importing them: where a module is, what it imports, and what of its text counts."""

import ast
import hashlib
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_STANDARD_LIBRARY = tuple(Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib"))


class Link(NamedTuple):
    """``module.name.name…``: what an import leads to."""

    module: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """One parsed file; that of a package is called ``package.__init__``."""

    module: str
    tree: ast.Module

    @cached_property
    def digest(self) -> str:
        return digest(canonical(self.tree))

    @cached_property
    def links(self) -> list[Link]:
        """What the imports lead to, with what is read from them: ``import a`` and ``a.b()`` lead to ``a.b``."""
        read = defaultdict(set)
        for chain in chains(self.tree):
            for length in range(1, len(chain) + 1):
                read[chain[:length]].add(chain[length:])
        found = [link for links in self._lazy_imports().values() for link in links]
        for local, link in self._imports():
            path = tuple(local.split("."))
            found += [Link(link.module, link.names + names) for names in read.get(path) or [()]]
            if len(path) > 1:  # `import a.b` binds `a`, from which other modules may be read that somebody has imported
                found += [Link(path[0], names) for names in read[path[:1]]]
        return found

    @cached_property
    def exports(self) -> defaultdict[str, list[Link]]:
        """Name to what it may be imported from."""
        found = self._lazy_imports()
        for local, link in self._imports():
            found[local].append(link)
        return found

    @cached_property
    def defined(self) -> set[str]:
        """The names that are bound other than by an import."""
        nodes = list(ast.walk(self.tree))
        names = {node.name for node in nodes if isinstance(node, _DEFINITIONS)}
        return names | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}

    def _imports(self) -> Iterator[tuple[str, Link]]:
        """Every name that an import binds, and to what; of ``import a.b`` that is ``a.b``."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.asname or alias.name, Link(alias.name)) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                home = self._absolute("." * node.level + (node.module or ""))
                for alias in node.names:
                    yield alias.asname or alias.name, Link(home, () if alias.name == "*" else (alias.name,))
            elif isinstance(node, ast.Call) and node.args and (module := _text(node.args[0])) is not None:
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if called in ("import_module", "__import__"):
                    yield "", Link(self._absolute(module))

    def _lazy_imports(self) -> defaultdict[str, list[Link]]:
        """The entries of dict literals from name to module, beside a ``__getattr__`` (PEP 562)."""
        found = defaultdict(list)
        for node in ast.walk(self.tree) if "__getattr__" in self.defined else ():
            for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
                name, home = _text(key), _text(value)
                if name is not None and home is not None:
                    found[name].append(Link(self._absolute(home), (name,)))
        return found

    def _absolute(self, module: str) -> str:
        relative = module.lstrip(".")
        if relative == module:
            return module
        level = len(module) - len(relative)
        return ".".join([*self.module.split(".")[:-level], *filter(None, [relative])])


def chains(tree: ast.AST) -> set[tuple[str, ...]]:
    """Every dotted name at its full length: ``a.b.c(…)`` gives ``("a", "b", "c")``."""
    found: set[tuple[str, ...]] = set()
    waiting: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while waiting:
        node, attributes = waiting.pop()
        if isinstance(node, ast.Name):
            found.add((node.id, *attributes))
        elif isinstance(node, ast.Attribute):
            waiting.append((node.value, (node.attr, *attributes)))
        else:
            waiting.extend((child, ()) for child in ast.iter_child_nodes(node))
    return found


def canonical(node: Any) -> str:
    """A text that is equal for equal code: no positions, docstrings, comments; the same in every Python version."""
    if isinstance(node, list):
        return "[" + ",".join(map(canonical, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    # Empty fields are left out because newer versions of Python add fields that are empty for older code.
    fields = (
        f"{name}={canonical(value)}"
        for name, value in ast.iter_fields(_without_docstring(node))
        if value is not None and value != [] and name not in ("kind", "type_comment", "type_ignores")
    )
    return f"{type(node).__name__}({','.join(fields)})"


def _without_docstring(node: ast.AST) -> ast.AST:
    if not isinstance(node, (ast.Module, *_DEFINITIONS)) or not node.body:
        return node
    first = node.body[0]
    if not isinstance(first, ast.Expr) or _text(first.value) is None:
        return node
    fields: dict[str, Any] = {**dict(ast.iter_fields(node)), "body": node.body[1:]}
    return type(node)(**fields)


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def digest(text: str) -> str:
    """A short hash of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Location(NamedTuple):
    """Where a module is: its source file, or the folders of a package."""

    file: Path | None
    folders: tuple[str, ...]

    def is_users_own(self) -> bool:
        """Whether it is neither installed nor of the standard library."""
        path = (self.file or Path(self.folders[0])).resolve()
        installed = {"site-packages", "dist-packages"} & set(path.parts)
        return not installed and not any(folder in path.parents for folder in _STANDARD_LIBRARY)

    def submodules(self) -> Iterator[str]:
        """The names of all that is in a package, ``__init__`` included."""
        for path in (path for folder in self.folders for path in Path(folder).iterdir()):
            if path.stem.isidentifier() and (path.suffix == ".py" or path.is_dir()):
                yield path.stem

    def source(self, module: str) -> Source:
        """The parsed file."""
        assert self.file is not None  # only a package without a file has none
        state = self.file.stat()
        return _parsed(module, self.file, (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=5_000)
def _parsed(module: str, file: Path, stamp: tuple[int, int]) -> Source:
    return Source(module, ast.parse(file.read_bytes(), filename=str(file)))


def located(module: str) -> Location | None:
    """Find the source of a module without importing its parents, which could load numba or jax."""
    found, origin, folders = sys.modules.get(module), None, None
    if found is not None:
        origin, folders = getattr(found, "__file__", None), getattr(found, "__path__", None)
    else:
        parts = module.split(".")
        for depth in range(1, len(parts) + 1):
            name = ".".join(parts[:depth])
            finders = sys.meta_path if depth == 1 or folders is not None else ()
            try:
                spec = next(filter(None, (finder.find_spec(name, folders) for finder in finders)), None)
            except (
                KeyError
            ):  # a folder without __init__ whose parent is not loaded: Python asks the parent for its path
                folders = [str(Path(folder) / parts[depth - 1]) for folder in folders or ()]
                folders, origin = [folder for folder in folders if Path(folder).is_dir()], None
                continue
            if spec is None:
                return None
            folders = getattr(sys.modules.get(name), "__path__", spec.submodule_search_locations)
            origin = spec.origin
    if folders is not None:
        return Location(None, tuple(folders)) if list(folders) else None
    return Location(Path(origin), ()) if origin and origin.endswith(".py") else None
