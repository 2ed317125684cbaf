"""The source that a trial depends on, so that a stored result is used exactly as long as it would come out the same.

The closure starts at the trial function and follows imports, without importing anything:

- In the module of the trial only the definitions that the trial reaches count, so that another trial or the grid of a
  study may be edited freely. Every further module counts as a whole.
- The ``__init__`` of a package is a routing table: ``from fedrepro.kernels import project_simplex`` leads to the module
  that defines it and not to its siblings. Names that a lazy ``__getattr__`` serves are looked up in the tables (dict
  literals from name to module) of that ``__init__``. What cannot be resolved so takes in the whole ``__init__``.
- Followed are the modules of the package and the user's own files; installed libraries count through their versions.
- A trial that is defined in a notebook starts from the live function: its source, and for every global name that it
  uses the source or the value behind it.

Code is compared as a syntax tree without docstrings: comments and formatting do not matter.
"""

import ast
import hashlib
import inspect
import linecache
import sys
import sysconfig
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType

from fedrepro.errors import UserError

# What never changes a result: where and with how many processes trials run, how they are kept (every engine gives the
# same bytes), and how data are fetched and decoded (the digest of their content is in every key).
NEUTRAL = ("settings", "study.study", "study.cluster", "data.sources")

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)

# What is found in a tree stays so: the trees of files that have not changed are asked again by every study.
_remembered = lru_cache(maxsize=20_000)


def source_closure(trial: Callable, package: str = "fedrepro") -> dict[str, str]:
    """Hash per module (or notebook name) that the result of ``trial`` depends on.

    Parameters
    ----------
    trial
        A function defined at the top level of a module or of a notebook.
    package
        The package whose ``settings`` module is left out; its modules are followed like the user's own files.
    """
    closure = _Closure(package)
    if _file_of(trial.__module__) is None or trial.__module__ == "__main__":
        closure.take_live(trial)
    else:
        closure.take_definition(trial.__module__, trial.__name__)
    return closure.hashes()


def code_closure(
    modules: Iterable[str], code: list[ast.Module], neutral: Iterable[str] = (), package: str = "fedrepro"
) -> dict[str, str]:
    """Hash per module that whole modules, and pieces of code by their imports, depend on; the pieces are not included.

    Parameters
    ----------
    modules
        Their names; nothing is imported.
    code
        Parsed pieces, such as the cells of a notebook.
    neutral
        Modules and packages (without the name of ``package``) that are left out with all that only they import, besides
        those that never change a result.
    package
        As in `source_closure`.
    """
    closure = _Closure(package, neutral)
    for module in modules:
        closure.follow(module)
    closure.follow_imports_of(code)
    return closure.hashes()


class _Closure:
    """What has been reached so far."""

    def __init__(self, package: str, neutral: Iterable[str] = ()):
        self._neutral = {f"{package}.{name}" for name in (*NEUTRAL, *neutral)}
        self._package = package
        self._sources: dict[str, _Source | None] = {}
        self._whole: dict[str, str] = {}
        self._parts: dict[str, dict[str, str]] = defaultdict(dict)
        self._taken: set[tuple] = set()

    def hashes(self) -> dict[str, str]:
        partly = {module: _hash(repr(sorted(parts.items()))) for module, parts in self._parts.items()}
        return dict(sorted((partly | self._whole).items()))

    def follow(self, module: str, attributes: tuple[str, ...] = ()) -> None:
        """Take what ``module.attribute…`` depends on."""
        source = self._source(module)
        if source is None:
            return
        if source.is_package and attributes:
            self._route(source, attributes)
        else:
            self._take_whole(source)

    def take_definition(self, module: str, name: str) -> None:
        """Take one top-level name of a module and what it reaches there."""
        source = self._source(module)
        if source is None or name not in source.bindings:
            raise UserError(f"The trial {module}.{name} is not defined at the top level of its module: move it there.")
        self._take_names(source, name)

    def take_live(self, thing) -> None:
        """Take a function or class of a notebook: its source and what its global names stand for."""
        home, label = thing.__module__, f"{thing.__module__}:{thing.__qualname__}"
        if label in self._whole:
            return
        tree = ast.parse(textwrap.dedent(_text_of(thing)))
        self._whole[label] = _hash(canonical(tree))
        self._follow_imports(_imports_within([tree], home, is_package=False), [tree])
        names = vars(sys.modules[home])
        for root, *attributes in _chains([tree]):
            if root in names and names[root] is not thing:
                self._take_value(home, root, names[root], tuple(attributes))

    def _take_value(self, home: str, name: str, value, attributes: tuple[str, ...]) -> None:
        if isinstance(value, ModuleType):
            self.follow(value.__name__, attributes)
            return
        code = inspect.unwrap(value) if callable(value) else value
        if not hasattr(code, "__name__"):
            self._whole[f"{home}:{name}"] = _hash_of_value(name, value)
        elif getattr(code, "__module__", None) == home:
            self.take_live(code)
        elif isinstance(getattr(code, "__module__", None), str):
            self.follow(code.__module__, (code.__name__,))

    def follow_imports_of(self, code: list[ast.Module]) -> None:
        """Take what pieces of code import from the package and the user's own files."""
        self._follow_imports(_imports_within(code, "__main__", is_package=False), code)

    def _is_neutral(self, module: str) -> bool:
        """Whether the module, or a package that it belongs to, is left out."""
        parts = module.split(".")
        return any(".".join(parts[:depth]) in self._neutral for depth in range(1, len(parts) + 1))

    def _source(self, module: str) -> "_Source | None":
        if module not in self._sources:
            self._sources[module] = None if self._is_neutral(module) else self._read(module)
        return self._sources[module]

    def _read(self, module: str) -> "_Source | None":
        path = _file_of(module)
        if path is None or not (module.partition(".")[0] == self._package or _is_users_own(path)):
            return None
        return _read_source(module, path)

    def _take_whole(self, source: "_Source") -> None:
        if source.name in self._whole:
            return
        self._whole[source.name] = source.digest
        self._follow_imports(_imports_within([source.tree], source.name, source.is_package), [source.tree])
        for home in source.lazy_homes.values():
            self.follow(home)

    def _route(self, package: "_Source", attributes: tuple[str, ...]) -> None:
        name, *rest = attributes
        submodule = f"{package.name}.{name}"
        if name in package.bindings:
            self._take_names(package, name, tuple(rest))
        elif name in package.lazy_homes:
            home = package.lazy_homes[name]
            self._parts[package.name][name] = home
            self.follow(home, attributes)
        elif self._source(submodule) is not None:
            self.follow(submodule, tuple(rest))
        elif not self._is_neutral(submodule):
            self._take_whole(package)

    def _take_names(self, source: "_Source", name: str, attributes: tuple[str, ...] = ()) -> None:
        """Take the top-level definitions of ``source`` that ``name`` reaches; ``attributes`` are read from it."""
        if (source.name, name, attributes) in self._taken:
            return
        self._taken.add((source.name, name, attributes))
        waiting, seen, reached, imports = [name], set(), [], []
        while waiting:
            wanted = waiting.pop()
            if wanted in seen:
                continue
            seen.add(wanted)
            for binding in source.bindings.get(wanted, ()) or source.star_imports:
                if isinstance(binding, _Import):
                    self._parts[source.name][repr(binding)] = ""
                    imports.append(binding)
                elif not any(binding is known for known in reached):
                    text = _canonical_statement(binding)
                    self._parts[source.name][_hash(text)] = text
                    reached.append(binding)
                    waiting.extend(_names_in(binding))
        imports.extend(_imports_within(reached, source.name, source.is_package))
        self._follow_imports(imports, reached, extra=[(name, *attributes)])

    def _follow_imports(self, imports: Iterable["_Import"], trees: list[ast.AST], extra=()) -> None:
        uses = defaultdict(set)
        for root, *attributes in (*_chains(trees), *extra):
            uses[root].add(tuple(attributes))
        for found in imports:
            if found.local not in uses:
                self.follow(found.unread or found.module, found.attributes)
            for attributes in uses[found.local]:
                self.follow(found.module, found.attributes + attributes)


@dataclass(frozen=True)
class _Import:
    """``local`` stands for ``module`` or, with attributes, for what is read from it.

    ``unread`` is the module that is taken if nothing is read through ``local``, where that is another one.
    """

    local: str
    module: str
    attributes: tuple[str, ...] = ()
    unread: str = ""


@dataclass(frozen=True)
class _Source:
    """One parsed file."""

    name: str
    is_package: bool
    tree: ast.Module

    @cached_property
    def digest(self) -> str:
        return _hash(canonical(self.tree))

    @cached_property
    def bindings(self) -> dict[str, list]:
        """Top-level name to the imports and statements that bind or change it."""
        table = defaultdict(list)
        for statement in self.tree.body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                for found in _imports_of(statement, self.name, self.is_package):
                    table[found.local].append(found)
            else:
                for name in _names_bound_by(statement):
                    table[name].append(statement)
        return dict(table)

    @cached_property
    def star_imports(self) -> list[_Import]:
        return self.bindings.get("*", [])

    @cached_property
    def lazy_homes(self) -> dict[str, str]:
        """Name to module, from the dict literals of a package that has its own ``__getattr__``."""
        if not self.is_package or "__getattr__" not in self.bindings:
            return {}
        homes = {}
        for statement in self.tree.body:
            value = getattr(statement, "value", None)
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.Dict):
                homes |= {
                    key.value: _absolute(self.name, home.value)
                    for key, home in zip(value.keys, value.values, strict=True)
                    if _is_text(key) and _is_text(home)
                }
        return homes


_PARSED: dict[tuple[str, Path], tuple[tuple[int, int], _Source]] = {}


def _read_source(module: str, path: Path) -> _Source:
    state = path.stat()
    stamp = (state.st_mtime_ns, state.st_size)
    known = _PARSED.get((module, path))
    if known is None or known[0] != stamp:
        tree = ast.parse(path.read_bytes(), filename=str(path))
        _PARSED[module, path] = known = (stamp, _Source(module, path.name == "__init__.py", tree))
    return known[1]


def canonical(node) -> str:
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


@_remembered
def _canonical_statement(statement: ast.stmt) -> str:
    return canonical(statement)


def _without_docstring(node: ast.AST) -> ast.AST:
    if not isinstance(node, (ast.Module, *_DEFINITIONS)) or not node.body:
        return node
    first = node.body[0]
    if not (isinstance(first, ast.Expr) and _is_text(first.value)):
        return node
    return type(node)(**{**dict(ast.iter_fields(node)), "body": node.body[1:]})


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _file_of(module: str) -> Path | None:
    """The source file of a module, found without importing its parents (that could load numba or jax)."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        return Path(file) if file and file.endswith(".py") else None
    search, spec = None, None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        spec = next(filter(None, (finder.find_spec(name, search) for finder in sys.meta_path)), None)
        if spec is None:
            return None
        search = getattr(sys.modules.get(name), "__path__", spec.submodule_search_locations)
    return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None


_INSTALLED = tuple(Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib"))


def _is_users_own(path: Path) -> bool:
    path = path.resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(folder in path.parents for folder in _INSTALLED)


def _imports_within(trees: Iterable[ast.AST], module: str, is_package: bool) -> Iterator[_Import]:
    for tree in trees:
        for node in _import_statements(tree):
            yield from _imports_of(node, module, is_package)


@_remembered
def _import_statements(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


def _imports_of(node: ast.Import | ast.ImportFrom, module: str, is_package: bool) -> Iterator[_Import]:
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            home = _absolute(
                module if is_package else module.rpartition(".")[0], "." * node.level + (node.module or "")
            )
            yield _Import(alias.asname or alias.name, home, () if alias.name == "*" else (alias.name,))
        elif alias.asname:
            yield _Import(alias.asname, alias.name)
        else:
            root = alias.name.partition(".")[0]  # `import a.b` binds `a`, and `a.b.f` is then read from it
            yield _Import(root, root, unread=alias.name)


def _absolute(package: str, name: str) -> str:
    level = len(name) - len(name.lstrip("."))
    if level == 0:
        return name
    base = package.split(".")[: len(package.split(".")) - (level - 1)]
    return ".".join([*base, *filter(None, [name[level:]])])


def _names_bound_by(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement binds, or whose objects it may change."""
    if isinstance(statement, _DEFINITIONS):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, _DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Expr):
            names |= _names_in(node)  # a call such as `TABLE.update(…)` or `register(trial)`
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            names |= _names_in(_root_of(node))
    return names


def _root_of(node: ast.expr) -> ast.expr:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node


@_remembered
def _names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _chains(trees: Iterable[ast.AST]) -> set[tuple[str, ...]]:
    """Every dotted name that is read or written, at its full length: ``a.b.c(…)`` gives ``("a", "b", "c")``."""
    return set().union(*map(_chains_of, trees))


@_remembered
def _chains_of(tree: ast.AST) -> set[tuple[str, ...]]:
    chains, waiting = set(), [tree]
    while waiting:
        node = waiting.pop()
        chain = _chain(node)
        if chain:
            chains.add(chain)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return chains


def _chain(node: ast.AST) -> tuple[str, ...]:
    attributes = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else ()


def _text_of(thing) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        text = _class_in_its_cell(thing) if isinstance(thing, type) else None
    if text is None:
        raise UserError(
            f"The source of {thing.__qualname__} cannot be read: define it in a notebook cell or in a file."
        )
    return text


def _class_in_its_cell(cls: type) -> str | None:
    """The source of a class of a notebook: before Python 3.13 `inspect` finds only its methods."""
    for member in vars(cls).values():
        code = getattr(inspect.unwrap(member) if callable(member) else member, "__code__", None)
        text = "".join(linecache.getlines(code.co_filename)) if code else ""
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                return ast.get_source_segment(text, node)
    return None


def _hash_of_value(name: str, value) -> str:
    import joblib

    try:
        return joblib.hash(value)
    except Exception as error:  # pickling runs the object's own code, which may raise anything
        raise UserError(
            f"The trial uses the global {name}, whose value cannot be compared between runs: make it a setting, or "
            f"create it inside the trial."
        ) from error
