"""What comes again soon: looked up, and held equal to walking along the trace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zerosim.schedules.deepspeed3.modules import Node
from zerosim.schedules.deepspeed3.reuse import again, uses_of

NUMEL = (10, 3, 1, 7)
NODES = st.lists(st.integers(0, 3), max_size=3, unique=True).map(
    lambda own: Node("m", tuple(own), (*own, *({0, 1} - set(own))))
)


def test_what_is_used_before_so_many_elements_have_passed_comes_again() -> None:
    trace = [Node(str(p), (p,), (p,)) for p in (0, 1, 2, 3, 1)]
    uses = uses_of(trace, NUMEL, recurse=False)
    assert again(uses, (0, 1, 3), step=1, distance=4) == {1}  # 3 + 1 pass before module 3
    assert again(uses, (0, 1, 3), step=1, distance=5) == {1, 3}
    assert again(uses, (1,), step=2, distance=8) == set()
    assert again(uses, (0, 1, 2, 3), step=0, distance=0) == set()


@given(st.lists(NODES, max_size=8), st.integers(0, 8), st.integers(0, 60), st.booleans())
def test_looking_up_finds_what_walking_finds(
    trace: list[Node], step: int, distance: int, recurse: bool
) -> None:
    step = min(step, len(trace))
    seen: set[int] = set()
    passed = 0
    for later in trace[step:]:
        if passed >= distance:
            break
        seen.update(later.ids(recurse=recurse))
        passed += sum(NUMEL[p] for p in later.ids(recurse=recurse))
    assert again(uses_of(trace, NUMEL, recurse=recurse), range(4), step, distance) == seen
