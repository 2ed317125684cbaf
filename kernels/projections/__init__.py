"""Projections onto simplices, balls and hulls, Euclidean and in Kullback-Leibler divergence."""
