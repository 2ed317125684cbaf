"""Ensemble games: environments that play for a predictor which all of them use."""
