"""The trials of AFL: linear classifiers, language models, and the way to a known saddle point."""
