"""Faults planted into real runs: each must end within 30 s, say who and where, and leave nothing behind."""
