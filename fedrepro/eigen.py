"""The size of the cache by which Eigen, with which XLA multiplies matrices, cuts long sums into blocks.

Eigen asks the processor for the size of its L1 data cache, and sums of more than 512 terms are rounded differently for
another size: 32 KiB (Intel before Ice Lake, AMD before Zen 5) or 48 KiB (later ones). No flag of XLA sets it, and
jaxlib does not export Eigen's own ``setCpuCacheSizes``. The variable that it writes has a name in jaxlib's table of
symbols, though: `settle` writes it instead. Where a jaxlib comes without that table, the size is the processor's.
"""

import ctypes
import functools
import mmap
import os
import struct
from importlib import util
from pathlib import Path

L1_DATA_CACHE = 32 * 1024
_LIBRARY = "libjax_common.so"
_SIZES = b"\0_ZZN5Eigen8internal20manage_caching_sizesENS_6ActionEPlS2_S2_E12m_cacheSizes\0"  # L1, L2 and L3

# glibc's _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE and _SC_LEVEL3_CACHE_SIZE, which Python has no names for.
_SYSTEM_SIZES = (188, 191, 194)
_SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, ...
_SYMBOL_TABLE = 2


class _Sizes(ctypes.Structure):
    """Eigen's variable, and the compiler's guard behind it."""

    _fields_ = (("l1", ctypes.c_long), ("l2", ctypes.c_long), ("l3", ctypes.c_long), ("are_set", ctypes.c_byte))


def l1_data_cache() -> int:
    """The bytes that sums are blocked for, or will be once `settle` is called."""
    found = _of_the_system()[0]
    return L1_DATA_CACHE if found == L1_DATA_CACHE or _place() is not None else found


def settle() -> None:
    """Make the loaded Eigen reckon with 32 KiB, whatever this processor has; where that cannot be done, do nothing."""
    found, *others = _of_the_system()
    if found == L1_DATA_CACHE:
        return
    place, start = _place(), _loaded_at()
    if place is None or start is None:
        return
    sizes = _Sizes.from_address(start + place)
    # Only L1 decides how sums are cut; the others are what the processor says, for speed.
    sizes.l1, sizes.l2, sizes.l3, sizes.are_set = L1_DATA_CACHE, *others, 1


def _of_the_system() -> list[int]:
    return [os.sysconf(number) for number in _SYSTEM_SIZES]


def _library() -> Path | None:
    jaxlib = util.find_spec("jaxlib")
    if jaxlib is None or jaxlib.origin is None:
        return None
    return Path(jaxlib.origin).resolve().with_name(_LIBRARY)


@functools.cache
def _place() -> int | None:
    """Where the sizes are in the library, from its start on; None if its table of symbols does not say."""
    library = _library()
    try:
        with open(library or "", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _address_of(_SIZES, content)
    except (OSError, ValueError, struct.error):
        return None


def _address_of(name: bytes, content: mmap.mmap) -> int | None:
    """The address of a symbol of an ELF file for x86-64; its table has a million entries, so bytes are searched."""
    (sections,) = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    headers = [_SECTION.unpack_from(content, sections + i * size) for i in range(count)]
    for _, kind, _, _, first, length, names, *_ in headers:
        if kind != _SYMBOL_TABLE:
            continue
        texts, end_of_texts = headers[names][4], headers[names][4] + headers[names][5]
        at = content.find(name, texts, end_of_texts)
        wanted = struct.pack("<I", at + 1 - texts)
        found = content.find(wanted, first, first + length) if at >= 0 else -1
        while found >= 0:
            if (found - first) % _SYMBOL.size == 0:
                return _SYMBOL.unpack_from(content, found)[4]
            found = content.find(wanted, found + 1, first + length)
    return None


def _loaded_at() -> int | None:
    """The address at which this process has loaded the library, or None."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            addresses, _, offset, _, _, *path = line.split(maxsplit=5)
            if path and path[0].strip() == str(_library()) and int(offset, 16) == 0:
                return int(addresses.partition("-")[0], 16)
    return None
