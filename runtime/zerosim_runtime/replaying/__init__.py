"""A run's collectives once more, on real ranks: their kinds, sizes, groups, order and gaps."""
