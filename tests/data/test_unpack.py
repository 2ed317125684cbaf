"""Archives are read, and hostile ones refused."""

import gzip
import io
import lzma
import random
import re
import tarfile
import zipfile

import pytest

from fedrepro.data.sources.failure import SourceFailed
from fedrepro.data.sources.unpack import only, plain, read_members, read_members_in


def tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, body in members:
            info = tarfile.TarInfo(name)
            if isinstance(body, str):
                info.type, info.linkname = tarfile.SYMTYPE, body
                archive.addfile(info)
            else:
                info.size = len(body)
                archive.addfile(info, io.BytesIO(body))
    return path


def deb_of(data):
    def member(name, body):
        return f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(body):<10}`\n".encode() + body + b"\n" * (len(body) % 2)

    return b"!<arch>\n" + member("debian-binary", b"2.0\n") + member("data.tar.xz", data)


def deb(path, data):
    path.write_bytes(deb_of(data))
    return path


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz"])
def test_tar(mode, tmp_path):
    path = tar(tmp_path / "a.tar", [("p/a.txt", b"a"), ("p/b.bin", b"b"), ("p/link", "p/a.txt")], mode)
    assert read_members(path, ["p/*.txt"], 100) == {"p/a.txt": b"a"}


def test_zip(tmp_path):
    with zipfile.ZipFile(path := tmp_path / "a.whl", "w") as archive:
        archive.writestr("p/a.txt", "a")
        archive.writestr("p/b.bin", "b")
    assert read_members(path, ["p/a.txt", "p/*.bin"], 100) == {"p/a.txt": b"a", "p/b.bin": b"b"}


def test_deb(tmp_path):
    inner = tar(tmp_path / "data.tar.xz", [("./usr/share/a.gz", b"abc")], "w:xz")
    assert read_members(deb(tmp_path / "a.deb", inner.read_bytes()), ["usr/share/*.gz"], 10_000) == {
        "usr/share/a.gz": b"abc"
    }


@pytest.mark.parametrize("name", ["../a.txt", "/a.txt", "p/../../a.txt", "p\\..\\a.txt"])
def test_paths_that_lead_outside(name, tmp_path):
    with zipfile.ZipFile(zipped := tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, "a")
    for path in (tar(tmp_path / "a.tar", [(name, b"a")]), zipped):
        with pytest.raises(SourceFailed, match="leads outside"):
            read_members(path, ["*"], 100)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "a.zip"]


@pytest.mark.parametrize("target", ["/etc/passwd", "a.txt"])
def test_links_among_the_wanted_files(target, tmp_path):
    with pytest.raises(SourceFailed, match="is a link"):
        read_members(tar(tmp_path / "a.tar", [("a.txt", b"a"), ("b.txt", target)]), ["*.txt"], 100)


def test_bombs(tmp_path):
    with zipfile.ZipFile(zipped := tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", b"\0" * 10_000_000)
    passed_over = tar(tmp_path / "a.tar", [("bomb", b"\0" * 10_000_000), ("a.txt", b"a")])
    for path in (zipped, passed_over):
        assert path.stat().st_size < 20_000
        with pytest.raises(SourceFailed, match="unpacks to more than 1,000,000 bytes"):
            read_members(path, ["a.txt"], 1_000_000)


def test_a_missing_file(tmp_path):
    with pytest.raises(SourceFailed, match=r"does not contain c\.txt"):
        read_members(tar(tmp_path / "a.tar", [("a.txt", b"a")]), ["a.txt", "c.txt"], 100)


@pytest.mark.parametrize("kind", ["tar", "deb", "noise"])
def test_truncated(kind, tmp_path):
    import os

    whole = tar(tmp_path / "a.tar", [("a.txt", os.urandom(20_000))], "w:xz")
    if kind == "deb":
        whole = deb(tmp_path / "a.deb", whole.read_bytes())
    broken = tmp_path / "broken"
    broken.write_bytes(b"noise" * 1000 if kind == "noise" else whole.read_bytes()[:10_000])
    with pytest.raises(SourceFailed, match="is damaged"):
        read_members(broken, ["a.txt"], 100_000)


def archives():
    """Small good archives of every kind."""
    made = {}
    for mode in ("", "gz", "bz2", "xz"):
        with tarfile.open(fileobj=(raw := io.BytesIO()), mode=f"w:{mode}") as archive:
            for name in ("a.txt", "b.txt"):
                info = tarfile.TarInfo(name)
                info.size = 500
                archive.addfile(info, io.BytesIO(bytes(range(250)) * 2))
        made[f"tar {mode}"] = raw.getvalue()
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(raw := io.BytesIO(), "w", method) as archive:
            archive.writestr("a.txt", bytes(range(250)) * 2)
            archive.writestr("b.txt", b"b" * 500)
        made[f"zip {method}"] = raw.getvalue()
    made["deb"] = deb_of(made["tar xz"])
    return made


@pytest.mark.parametrize("kind", archives())
def test_mutated_archives(kind):
    """Bytes changed, cut out, put in and cut off, from a seed: the files are read, or one sentence says why not."""
    whole, draws = archives()[kind], random.Random(kind)
    for _ in range(150):
        raw = bytearray(whole)
        for _ in range(draws.randint(1, 4)):
            at, change = draws.randrange(len(raw)), draws.randrange(4)
            if change == 0:
                raw[at] = draws.choice([0, 1, 0x2D, 0x39, 0x7F, 0x80, 0xFF, draws.randrange(256)])
            elif change == 1:
                del raw[at : at + draws.randint(1, 30)]
            elif change == 2:
                raw[at:at] = draws.randbytes(draws.randint(1, 30))
            else:
                raw[at : at + 12] = draws.choice([b"-" * 12, b"\xff" * 12, b"9" * 12, b"\0" * 12])
            raw = raw or bytearray(1)
        try:
            read_members_in(bytes(raw), "a", ["*.txt"], 10_000)
        except SourceFailed as error:
            assert "\n" not in str(error) and str(error).startswith("a ")


def doctored(raw, old, new):
    """All places of the first bytes have the second ones."""
    assert old in raw
    return raw.replace(old, new)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"\n <!DOCTYPE html>\n<html>\nSign in\n</html>", "a is a web page and not an archive"),
        (b"", "a is damaged .*"),
        (b"neither\nof\nthem" * 100, "a is damaged .file could not be opened successfully."),
        # Flag bit 0 says that a member is encrypted; method 99 is nobody's.
        (
            doctored(archives()["zip 0"], b"\x14\x03\x14\0\0", b"\x14\x03\x14\0\1"),
            ".* is encrypted, .*",
        ),
        (doctored(archives()["zip 0"], b"\x14\0\0\0\0\0", b"\x14\0\0\0\x63\0"), ".* compression method .*"),
        (doctored(archives()["deb"], b"100644", b"\xff00644"), None),
        (doctored(archives()["deb"], b"data.tar.xz", b"data.tar\xff\xff\xff"), "a is damaged .*ascii.*"),
        (doctored(archives()["deb"], b"4         `", b"x         `"), "a is damaged .*invalid literal.*"),
    ],
    ids=["page", "empty", "text", "encrypted", "method", "deb mode", "deb name", "deb size"],
)
def test_crafted_archives(raw, sentence):
    if sentence is None:
        assert len(read_members_in(raw, "a", ["*.txt"], 100_000)) == 2
    else:
        with pytest.raises(SourceFailed) as refused:
            read_members_in(raw, "a", ["*.txt"], 100_000)
        assert re.fullmatch(sentence, str(refused.value))


def test_a_tar_that_goes_backwards_ends():
    with tarfile.open(fileobj=(raw := io.BytesIO()), mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a.txt")
        info.pax_headers = {"size": "-1024"}
        archive.addfile(info)
    with pytest.raises(SourceFailed, match="a is damaged"):
        read_members_in(raw.getvalue(), "a", ["*.txt"], 10_000)


def test_an_archive_in_memory(tmp_path):
    raw = tar(tmp_path / "a.tar", [("p/a.txt", b"a")]).read_bytes()
    assert read_members_in(raw, "a.tar", ["p/*"], 100) == {"p/a.txt": b"a"}
    with pytest.raises(SourceFailed, match=r"^a\.tar is damaged"):
        read_members_in(raw[:20], "a.tar", ["p/*"], 100)
    with pytest.raises(SourceFailed, match=r"^a\.tar does not contain q"):
        read_members_in(raw, "a.tar", ["q"], 100)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_files(compress):
    body = bytes(range(256)) * 40
    assert plain(compress(body), "a", len(body)) == body
    with pytest.raises(SourceFailed, match="a is refused because it unpacks to more than 10,239 bytes"):
        plain(compress(body), "a", len(body) - 1)
    with pytest.raises(SourceFailed, match="a is damaged"):
        plain(compress(body)[:-1], "a", len(body))
    doctored = bytearray(compress(body))
    doctored[len(doctored) // 2] ^= 0xFF
    with pytest.raises(SourceFailed, match="a is damaged"):
        plain(bytes(doctored), "a", len(body))


def test_a_file_that_is_not_compressed_is_left_as_it_is():
    assert plain(b"1,2,3", "a", 1) == b"1,2,3"


def test_the_only_file():
    assert only({"a": b"1"}) == b"1"
    with pytest.raises(SourceFailed, match="0 files instead of one"):
        only({})
