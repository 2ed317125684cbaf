"""Algorithms in which every node keeps a network of its own."""
