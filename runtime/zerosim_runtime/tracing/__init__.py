"""Tracing of any torch.distributed program: what it asks of its ranks, and when it got it."""
