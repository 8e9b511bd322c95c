"""Scripts to copy: a training loop under the ZeRO library."""
