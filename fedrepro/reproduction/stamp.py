"""What an output was made from, so that nothing is made twice.

A run leaves a stamp beside its output: the parameters, sources, versions and settings behind it, and the size and time
of every file that it has read (data, stored trials) or written. While all of that is as it was, the output is not made
again. Only bytes and times are compared and nothing is imported or decoded, which takes a fraction of a second; where
in doubt (a comment changed, a file was touched) the output is made again. Publishers are not asked whether data that
could not be had then can be had now: `fedrepro data get` does, and what it finds is a change.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from platform import python_version
from typing import Any

import fedrepro
from fedrepro import settings, target
from fedrepro.files import write_output
from fedrepro.reproduction.paper.schema import declaration, folder, keys
from fedrepro.reproduction.results import to_json
from fedrepro.reproduction.site_files import WRITTEN_BESIDE_A_PAPER

NAME = ".made-from.json"
_NO_PART_IN_RESULTS = {"bench", "cli", "kernels", "papers"}  # kernels and papers may lie elsewhere, and are added
_LEFT_BY_TOOLS = {"__pycache__", ".ipynb_checkpoints"}
_DIFFERENCES_TOLD = 3


@dataclass(frozen=True)
class Stamp:
    """What the output in a folder is to be made from now.

    Parameters
    ----------
    folder
        The folder.
    inputs
        Kind of input to name to value, as JSON knows them.
    of_others
        What others write into the folder: it is no part of this output.
    """

    folder: Path
    inputs: Mapping[str, Mapping[str, Any]]
    of_others: frozenset[str] = frozenset()

    def leave(self, read: Iterable[Path] = ()) -> None:
        """Say that the output is made; ``read`` are the files behind it, be they there or not."""
        files = {str(path): _state(path) for path in (*read, *self._output())}
        write_output(self.folder / NAME, to_json({"inputs": self.inputs, "files": files}))

    def differences(self) -> list[str] | None:
        """What has changed since the output was made, in words; None if nothing is known about it."""
        try:
            left = json.loads((self.folder / NAME).read_bytes())
            inputs, files = left["inputs"], {Path(path): state for path, state in left["files"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):  # there is none, or it is damaged
            return None
        changed = [f"{path} has changed" for path, state in files.items() if _state(path) != state]
        changed += [f"{path} is new" for path in self._output() if path not in files]
        return [*_changes(inputs, json.loads(to_json(self.inputs))), *changed]

    def _output(self) -> Iterator[Path]:
        """The files of the output."""
        return (path for path in _below(self.folder) if path.relative_to(self.folder).parts[0] not in self.of_others)


def paper_stamps(papers: Mapping[str, Mapping[str, Any]], profile: str, output: Path) -> dict[str, Stamp]:
    """The stamp of each paper, which is given with its parameters, in its folder below ``output``."""
    package, versions = _package_sources(), _versions()
    return {
        key: Stamp(
            output.absolute() / key,
            {
                "parameter": {"profile": profile, **values},
                "version": versions,
                "setting": _settings() | {"left out": ", ".join(sorted(settings.left_out(key))) or "nothing"},
                "source": package | _paper_sources(key),
            },
            of_others=frozenset(WRITTEN_BESIDE_A_PAPER),
        )
        for key, values in papers.items()
    }


def page_stamp(output: Path) -> Stamp:
    """The stamp of the page, which shows all papers and their references."""
    sources = _package_sources()
    for key in keys():
        sources |= _paper_sources(key) | _digests(f"papers/{key}/reference", folder(key) / "reference")
    return Stamp(output.absolute(), {"source": sources, "version": _versions()})


def data_files(key: str) -> list[Path]:
    """The files in which a paper's data sets are looked for, and what may stand in for them."""
    from fedrepro.data.sources.finder import places
    from fedrepro.data.sources.stand_ins import stand_ins_of

    names = {one for name in declaration(key).data for one in (name, *stand_ins_of(name))}
    return [path for name in sorted(names) for path in places(name)]


def in_words(differences: list[str]) -> str:
    """Differences as part of a sentence."""
    more = len(differences) - _DIFFERENCES_TOLD
    return "; ".join(differences[:_DIFFERENCES_TOLD]) + (f"; and {more} more" if more > 0 else "")


def _changes(before: Mapping[str, Mapping], now: Mapping[str, Mapping]) -> Iterator[str]:
    for kind, values in now.items():
        known = before.get(kind, {})
        for name in sorted(values.keys() | known.keys()):
            if values.get(name) == known.get(name):
                continue
            if kind == "source":
                yield f"{name} has changed"
            else:
                yield f"{kind} {name} was {known.get(name)} and is {values.get(name)}"


def _package_sources() -> dict[str, str]:
    kernels = util.find_spec("fedrepro.kernels")
    assert kernels is not None and kernels.submodule_search_locations
    package = Path(fedrepro.__file__).parent
    own = {part.name for part in package.iterdir()} - _NO_PART_IN_RESULTS
    found = _digests("kernels", Path(kernels.submodule_search_locations[0]))
    for part in own:
        found |= _digests(f"fedrepro/{part}", package / part)
    return found


def _paper_sources(key: str) -> dict[str, str]:
    found = {}
    for path in folder(key).iterdir():
        if path.name not in ("reference", "README.md"):
            found |= _digests(f"papers/{key}/{path.name}", path)
    return found


def _digests(name: str, path: Path) -> dict[str, str]:
    """The digest of a file, or of each file below a folder, by its name."""
    if path.name in _LEFT_BY_TOOLS:
        return {}
    files = {name: path} if path.is_file() else {f"{name}/{one.relative_to(path)}": one for one in _below(path)}
    return {one: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for one, file in files.items()}


def _versions() -> dict[str, str]:
    installed = {str(one.metadata["Name"]): str(one.version) for one in metadata.distributions()}  # some lack both
    return {"python": python_version(), **installed}


def _settings() -> dict[str, str]:
    return {
        "target": target.in_force(),
        "FEDREPRO_DATA": str(settings.data_folder()),
        "FEDREPRO_SOURCES": ",".join(settings.data_sources()),
        "FEDREPRO_CACHE": str(settings.cache_folder()),
        "FEDREPRO_STORE": str(settings.store_folder()),
    }


def _below(top: Path) -> Iterator[Path]:
    """All files below a folder, but for stamps and what tools leave."""
    for home, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in _LEFT_BY_TOOLS]
        yield from (Path(home, name) for name in names if name != NAME)


def _state(path: Path) -> list[int] | None:
    """Size and time of a file, which change whenever it is written; None if it is not there."""
    with contextlib.suppress(OSError):
        about = path.stat()
        return [about.st_size, about.st_mtime_ns]
    return None
