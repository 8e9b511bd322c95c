"""Analysis: pure functions from a Trace to small frozen results, whoever made the trace."""
