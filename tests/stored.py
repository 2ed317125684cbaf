"""What must be the same in two stores of the same trials."""

from pathlib import Path


def stored_traces(store: Path) -> dict[str, tuple[bytes, ...]]:
    """What a store holds, by file: everything but the seconds that a trial took, and the checksum over them."""
    found = {path.name: path.read_bytes().split(b"\n", 4) for path in store.glob("*/*.trial")}
    return {name: (form, components, trace) for name, (form, _, components, _, trace) in found.items()}
