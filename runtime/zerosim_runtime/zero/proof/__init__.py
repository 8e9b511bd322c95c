"""The proof that the ZeRO library trains as plain DDP does, and that this proof would notice if not."""
