"""Data sets: where they come from, proof that they are the right ones, and their split into clients and domains."""

from fedrepro.data.federation import Federation
from fedrepro.data.sources.finder import Found, find, load

__all__ = ["Federation", "Found", "find", "load"]
