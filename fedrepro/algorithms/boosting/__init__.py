"""Boosting for several sources, central and federated."""
