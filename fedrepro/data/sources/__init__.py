"""Where data come from: a folder, the cache, the publisher, or a package that carries them."""
