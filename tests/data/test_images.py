"""MNIST, Fashion-MNIST and CIFAR-10: decoders on small and on doctored files, and the real sets where they are."""

import dataclasses
import gzip
import hashlib
import io
import json
import pickle
import tarfile
import time

import numpy as np
import pytest
from PIL import Image

from fedrepro.data import find, load
from fedrepro.data.catalogue import images, table
from fedrepro.data.catalogue.content import Images, digest_of, to_bytes
from fedrepro.data.sources import cache, finder
from fedrepro.data.sources.failure import SourceFailed
from fedrepro.errors import DataUnavailable
from fedrepro.settings import data_folder

FOLDER = data_folder()
IDX_NAMES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
# MD5 of the publishers' uncompressed files.
MD5 = {
    "mnist": {
        "x_train": "6bbc9ace898e44ae57da46a324031adb",
        "y_train": "a25bea736e30d166cdddb491f175f624",
        "x_test": "2646ac647ad5339dbf082846283269ea",
        "y_test": "27ae3e4e09519cfbb04c329615203637",
    },
    "fashion_mnist": {
        "x_train": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "y_train": "9018921c3c673c538a1fc5bad174d6f9",
        "x_test": "8181f5470baa50b63fa0f6fddb340f0a",
        "y_test": "15d484375f8d13e6eb1aabb0c3f46965",
    },
}


def some_images(train, test, shape, seed=1):
    draw = np.random.default_rng(seed)
    x = [draw.integers(0, 256, (count, *shape), dtype=np.uint8) for count in (train, test)]
    y = [draw.integers(0, 10, count, dtype=np.uint8) for count in (train, test)]
    return Images(x[0], y[0], x[1], y[1])


DIGITS = some_images(60, 10, (28, 28))
PICTURES = some_images(50, 10, (32, 32, 3))


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return head + array.tobytes()


def idx_files(content):
    return {name: idx(getattr(content, field)) for field, name in IDX_NAMES.items()}


def batches(content):
    """The six files of CIFAR-10: name -> (images, labels)."""
    train = zip(np.split(content.x_train, 5), np.split(content.y_train, 5), strict=True)
    return {f"data_batch_{at}": part for at, part in enumerate(train, 1)} | {
        "test_batch": (content.x_test, content.y_test)
    }


def png(pixels):
    Image.fromarray(pixels).save(stream := io.BytesIO(), format="PNG")
    return stream.getvalue()


def png_files(content):
    files = {f"package/{name}.png": png(x.reshape(len(x), 1024, 3)) for name, (x, _) in batches(content).items()}
    labels = {"train": content.y_train, "test": content.y_test}
    return files | {f"package/{part}_lables.json": json.dumps(y.tolist()).encode() for part, y in labels.items()}


def binary_tar(content):
    with tarfile.open(fileobj=(stream := io.BytesIO()), mode="w:gz") as archive:
        for name, (x, y) in batches(content).items():
            records = np.column_stack([y, x.transpose(0, 3, 1, 2).reshape(len(x), -1)])
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = records.nbytes
            archive.addfile(member, io.BytesIO(records.tobytes()))
    return stream.getvalue()


def npz(**arrays):
    np.savez(stream := io.BytesIO(), **arrays)
    return stream.getvalue()


@pytest.mark.parametrize("packed", [lambda raw: raw, gzip.compress])
def test_idx(packed):
    files = {f"some/folder/{name}.gz": packed(raw) for name, raw in idx_files(DIGITS).items()}
    assert digest_of(images.images_from_idx(files)) == digest_of(DIGITS)


@pytest.mark.parametrize(
    ("name", "doctor", "reason"),
    [
        ("train-images-idx3-ubyte", lambda raw: raw[:-1], "47,039 values, but its head says 60 x 28 x 28"),
        ("train-images-idx3-ubyte", lambda raw: raw + b"\0", "47,041 values"),
        ("train-images-idx3-ubyte", lambda raw: raw[:9], "ends before its values begin"),
        ("t10k-labels-idx1-ubyte", lambda raw: b"", "not an IDX file"),
        ("t10k-labels-idx1-ubyte", lambda raw: b"\0\0\x0d" + raw[3:], "not an IDX file of bytes"),
        ("t10k-labels-idx1-ubyte", lambda raw: b"PK\3\4" + raw, "not an IDX file"),
        ("t10k-labels-idx1-ubyte", lambda raw: idx(DIGITS.y_test[:-1]), "do not go with labels"),
        ("t10k-images-idx3-ubyte", lambda raw: idx(DIGITS.y_test), "do not go with labels"),
        ("train-labels-idx1-ubyte", lambda raw: gzip.compress(raw)[:-9], "ends too early"),
        ("train-labels-idx1-ubyte", lambda raw: gzip.compress(bytes(2**26 + 1)), "unpacks to more than 67,108,864"),
    ],
)
def test_doctored_idx(name, doctor, reason):
    files = idx_files(DIGITS)
    files[name] = doctor(files[name])
    with pytest.raises(SourceFailed, match=reason):
        images.images_from_idx(files)


def test_a_missing_idx_file():
    files = idx_files(DIGITS)
    del files["t10k-images-idx3-ubyte"]
    with pytest.raises(SourceFailed, match="t10k-images-idx3-ubyte is missing"):
        images.images_from_idx(files)


def test_cifar10_is_the_same_from_pictures_and_from_records():
    assert digest_of(images.cifar10_from_png(png_files(PICTURES))) == digest_of(PICTURES)
    assert digest_of(images.cifar10_from_binary({"url": binary_tar(PICTURES)})) == digest_of(PICTURES)


@pytest.mark.parametrize(
    ("path", "doctor", "reason"),
    [
        ("package/data_batch_3.png", lambda raw: raw[: len(raw) // 2], "data_batch_3 is damaged"),
        ("package/data_batch_3.png", lambda raw: b"GIF89a" + raw, "data_batch_3 is damaged"),
        ("package/test_batch.png", lambda raw: png(PICTURES.x_test[0]), "does not have an image of 32 x 32"),
        ("package/test_batch.png", lambda raw: png(PICTURES.x_test.reshape(10, 1024, 3)[:9]), "do not go with labels"),
        ("package/train_lables.json", lambda raw: b"[1, 2", "labels are damaged"),
        ("package/train_lables.json", lambda raw: b"[300]", "labels are damaged"),
        ("package/test_lables.json", lambda raw: b"{}", "labels are damaged"),
        ("package/test_lables.json", lambda raw: b"[1, 2]", "do not go with labels"),
    ],
)
def test_doctored_pictures(path, doctor, reason):
    files = png_files(PICTURES)
    files[path] = doctor(files[path])
    with pytest.raises(SourceFailed, match=reason):
        images.cifar10_from_png(files)


def test_doctored_records():
    whole = binary_tar(PICTURES)
    with pytest.raises(SourceFailed, match="the archive is damaged"):
        images.cifar10_from_binary({"url": whole[:-2000]})
    with tarfile.open(fileobj=(stream := io.BytesIO()), mode="w") as archive:
        archive.addfile(tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin"))
    with pytest.raises(SourceFailed, match=r"does not contain \*/data_batch_1\.bin"):
        images.cifar10_from_binary({"url": stream.getvalue()})
    with pytest.raises(SourceFailed, match="does not end with a whole image"):
        images._records(bytes(3072), "data_batch_1.bin")


@pytest.fixture(scope="module")
def whole():
    """As many images of each class as the small variant needs, and some more."""
    labels = np.random.default_rng(2).permutation(np.arange(12_000) % 10)
    return dataclasses.replace(some_images(12_000, 1_200, (1, 1, 1)), y_train=labels.astype(np.uint8))


def test_the_small_part_is_in_the_whole(whole):
    small = images.small_part(whole)
    for part, of in (("train", "train"), ("val", "train"), ("test", "test")):
        idx = getattr(small, f"idx_{part}")
        np.testing.assert_array_equal(getattr(small, f"x_{part}"), getattr(whole, f"x_{of}")[idx])
        np.testing.assert_array_equal(getattr(small, f"y_{part}"), getattr(whole, f"y_{of}")[idx])
    assert np.bincount(small.y_train).tolist() == [1000] * 10
    assert np.bincount(small.y_val).tolist() == [100] * 10
    assert not set(small.idx_train) & set(small.idx_val)
    assert len(small.y_test) == 1000
    # The first of each class: a class's last training image stands before its first image for validation.
    assert all(small.idx_train[small.y_train == k].max() < small.idx_val[small.y_val == k].min() for k in range(10))


def test_npz(whole):
    small = images.small_part(whole)
    assert digest_of(images.cifar10_small_from_npz({"file": npz(**vars(small))})) == digest_of(small)


@pytest.mark.parametrize(
    ("doctor", "reason"),
    [
        (lambda arrays: npz(**arrays)[:-100], "damaged"),
        (lambda arrays: npz(**{name: array for name, array in arrays.items() if name != "y_val"}), "lacks.*: y_val$"),
        (lambda arrays: npz(**arrays, more=np.arange(3)), "too much: more$"),
        (lambda arrays: b"", "damaged"),
    ],
)
def test_doctored_npz(doctor, reason, whole):
    with pytest.raises(SourceFailed, match=reason):
        images.cifar10_small_from_npz({"file": doctor(vars(images.small_part(whole)))})


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, evidence):
        self.evidence = evidence

    def __reduce__(self):
        return open, (str(self.evidence), "w")


@pytest.mark.parametrize("packed", [pickle.dumps, lambda hostile: npz(x_train=np.array([hostile], dtype=object))])
def test_nothing_is_unpickled(packed, tmp_path):
    hostile = packed(Hostile(tmp_path / "evidence"))
    with pytest.raises(SourceFailed, match="more than plain arrays"):
        images.cifar10_small_from_npz({"file": hostile})
    assert not (tmp_path / "evidence").exists()


@pytest.fixture
def publish_mnist(server, fresh, monkeypatch):
    """Let the local server stand in for MNIST's publisher: its four files, and the digest of their content."""

    def put(files, digest):
        entry = table.TABLE["mnist"]
        (variant,) = entry.variants
        names = [url.rsplit("/", 1)[-1] for url in variant.publisher.urls]
        urls = tuple(f"http://{server.host}/{name}" for name in names)
        publisher = dataclasses.replace(variant.publisher, urls=urls)
        local = dataclasses.replace(variant, digest=digest, publisher=publisher)
        monkeypatch.setitem(table.TABLE, "mnist", dataclasses.replace(entry, variants=(local,)))
        server.answers = [(200, files[name], "whole") for name in names]

    return put


def test_the_publisher_serves_the_four_files(publish_mnist, server):
    publish_mnist({f"{name}.gz": gzip.compress(raw) for name, raw in idx_files(DIGITS).items()}, digest_of(DIGITS))
    assert find("mnist").source == "publisher"
    assert server.requests == 4
    finder.forget()
    assert find("mnist").source == "cache"


def test_a_folder_with_another_content_is_refused(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    for name, raw in idx_files(DIGITS).items():
        (tmp_path / "mnist" / f"{name}.gz").write_bytes(gzip.compress(raw))
    monkeypatch.setenv("FEDREPRO_DATA", str(tmp_path))
    monkeypatch.setenv("FEDREPRO_SOURCES", "folder")
    with pytest.raises(DataUnavailable, match="not the known one"):
        find("mnist")


def test_seventy_thousand_cached_images_are_loaded_in_a_moment(fresh, monkeypatch):
    content = some_images(60_000, 10_000, (28, 28))
    monkeypatch.setenv("FEDREPRO_SOURCES", "cache")
    local = dataclasses.replace(table.TABLE["mnist"].variants[0], digest=digest_of(content))
    monkeypatch.setitem(table.TABLE, "mnist", dataclasses.replace(table.TABLE["mnist"], variants=(local,)))
    cache.folder_of("mnist", "full").mkdir(parents=True)
    cache.write("mnist", "full", local.digest, to_bytes(content), "a test")

    def seconds(call):
        finder.forget()
        start = time.process_time()
        call()
        return time.process_time() - start

    loading, proving = (
        min(seconds(call) for _ in range(5)) for call in (lambda: load("mnist"), lambda: digest_of(content))
    )
    assert loading < 4 * proving, f"loaded in {loading:.3f} s, and to prove the content takes {proving:.3f} s"
    np.testing.assert_array_equal(load("mnist").x_test, content.x_test)


if FOLDER:
    # The sets come to 200 MB, so they are decoded again only where there is a folder; elsewhere the digests in the
    # table, which are those of folder and carrier alike, prove what is fetched.

    @pytest.mark.parametrize("name", list(MD5))
    def test_the_folder_has_the_publishers_pixels(name, no_publisher):
        assert find(name).source == "folder"
        content = load(name)
        assert {field: hashlib.md5(idx(getattr(content, field))).hexdigest() for field in IDX_NAMES} == MD5[name]

    def test_the_publisher_serves_the_real_files(publish_mnist, server):
        files = {path.name: path.read_bytes() for path in (FOLDER / "mnist").iterdir()}
        publish_mnist(files, table.TABLE["mnist"].variants[0].digest)
        assert find("mnist").source == "publisher"
        assert load("mnist").x_train.shape == (60_000, 28, 28)

    def test_the_folder_has_the_small_variant(no_publisher):
        assert find("cifar10", "small").source == "folder"
        small = load("cifar10", "small")
        assert small.x_train.shape == (10_000, 32, 32, 3) and small.x_val.shape == (1_000, 32, 32, 3)
        assert np.bincount(small.y_test).tolist() == [103, 89, 100, 103, 90, 86, 112, 102, 106, 109]
        assert small.idx_train.max() == 10_710
