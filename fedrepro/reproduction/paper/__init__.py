"""A paper: what it published, what we measured, and what is recorded of it.

``paper.toml`` declares everything that a paper's notebook must produce (`schema`); the notebook produces it
through `Paper`, which refuses to close while something is missing.
"""

from fedrepro.reproduction.paper.parameters import check, parameters_cell, resolve
from fedrepro.reproduction.paper.recorder import Paper
from fedrepro.reproduction.paper.schema import Declaration, declaration, folder, keys

__all__ = ["Declaration", "Paper", "check", "declaration", "folder", "keys", "parameters_cell", "resolve"]
