"""Convolution and pooling in registers, as programs of XLA call it."""
