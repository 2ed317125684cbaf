"""The catalogue: every data set with its variants, its digests and its decoders."""
