"""Archives are read, and hostile ones refused."""

import gzip
import io
import lzma
import tarfile
import zipfile

import pytest

from fedrepro.data.failure import SourceFailed
from fedrepro.data.unpack import only, plain, read_members, read_members_in


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


def deb(path, data):
    def member(name, body):
        return f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(body):<10}`\n".encode() + body + b"\n" * (len(body) % 2)

    path.write_bytes(b"!<arch>\n" + member("debian-binary", b"2.0\n") + member("data.tar.xz", data))
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
