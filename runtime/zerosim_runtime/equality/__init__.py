"""The proof: real engines run, each collective is written down, and compared with what the plan says.

# Note [Adding a family]
Write `equality/FAMILY.py` with `CASES: tuple[Case, ...]`, `observe(case, rank) -> list[Seen]` and
`NEEDS: tuple[str, ...]` (the distributions whose versions the report names; a family whose
distributions are not installed is left out, with a sentence), and one line in `families.py`.
`observe` is called on every rank of a case, inside a process group of `case.world_size` ranks (Gloo;
with `case.fake` torch's fake backend, one process that is called as the first and as the last
rank). It builds the model with `marked_model(case, record)`, wraps it with its engine and calls

    record = Record()
    with watching(record):
        for record.step in range(1, steps + 1):
            for record.micro_batch in range(micro_batches): ...forward and backward...
    return record.seen

A family whose engine not everybody can install has a `REPLAY`, too: where it is installed, what it did
is recorded as JSON; plans are compared with the recordings everywhere.

`watching` sees every c10d call, from Python or from C++, and refuses one it does not know.
"""
