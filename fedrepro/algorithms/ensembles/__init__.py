"""Algorithms that learn the weights of an ensemble of pre-trained models."""
