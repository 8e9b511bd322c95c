"""The directory that `zerosim trace` puts on PYTHONPATH, for its `sitecustomize` alone."""
