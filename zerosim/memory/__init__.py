"""What a rank holds: byte conventions, closed forms of the states, the peak of a plan, the allocator."""
