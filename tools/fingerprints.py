"""Writes the fingerprints of the installed versions to fedrepro/fingerprints.json; those of other versions stay."""

import json
from pathlib import Path

import fedrepro

fedrepro.prepare()

from fedrepro import fingerprints, target  # noqa: E402  (they load NumPy)

if not target.is_reference_worthy(target.in_force()):
    raise SystemExit(f"These would be the fingerprints of this machine only: {target.in_force()}.")
known = fingerprints.committed() | {fingerprints.versions(): fingerprints.computed()}
Path(fingerprints.__file__).with_suffix(".json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
