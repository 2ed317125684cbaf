"""Comparisons of methods that no paper made: code for the notebooks of docs/comparisons/."""
