"""ZeRO-1, 2 and 3 for any nn.Module, small enough to read."""
