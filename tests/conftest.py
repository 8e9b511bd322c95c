"""What all tests share: property tests draw the same examples on every machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("ci", derandomize=True, max_examples=100, deadline=None, database=None)
settings.load_profile("ci")
