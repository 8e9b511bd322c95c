"""The caching allocator: sizes, splitting, joining, streams, and giving back when the device is full."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zerosim.memory.allocator import Block, CachingAllocator, block_bytes, segment_bytes

KIB = 2**10
MIB = 2**20


def over(_: int) -> bool:
    return True


def running(_: int) -> bool:
    return False


def test_one_byte_takes_512() -> None:
    assert block_bytes(1) == 512
    assert block_bytes(513) == 1024


def test_up_to_one_mib_comes_out_of_two() -> None:
    assert segment_bytes(1) == 2 * MIB
    assert segment_bytes(MIB) == 2 * MIB


def test_up_to_ten_mib_comes_out_of_twenty() -> None:
    assert segment_bytes(MIB + 1) == 20 * MIB
    assert segment_bytes(10 * MIB - 512) == 20 * MIB


def test_more_is_rounded_to_two_mib() -> None:
    assert segment_bytes(10 * MIB) == 10 * MIB
    assert segment_bytes(10 * MIB + 1) == 12 * MIB


def test_small_ones_share_a_segment() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.take(MIB, "compute", over) for _ in range(2)]
    assert [(b.address, b.size) for b in blocks] == [(0, MIB), (MIB, MIB)]
    assert allocator.reserved_bytes == 2 * MIB
    allocator.take(1, "compute", over)
    assert allocator.reserved_bytes == 4 * MIB


def test_the_smallest_block_that_is_large_enough_is_taken() -> None:
    allocator = CachingAllocator()
    large, small = (allocator.take(n * MIB, "compute", over) for n in (40, 30))
    allocator.drop(large)
    allocator.drop(small)
    assert allocator.take(25 * MIB, "compute", over).address == small.address


def test_a_large_block_is_split_only_if_more_than_one_mib_is_left() -> None:
    allocator = CachingAllocator()
    allocator.drop(allocator.take(20 * MIB, "compute", over))
    kept = allocator.take(19 * MIB, "compute", over)
    assert kept.size == 20 * MIB  # one MiB is not more than one MiB
    allocator.drop(kept)
    assert allocator.take(19 * MIB - 512, "compute", over).size == 19 * MIB - 512
    assert allocator.take(MIB + 512, "compute", over).size == MIB + 512
    assert allocator.reserved_bytes == 20 * MIB


def test_free_neighbours_are_joined() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.take(5 * MIB, "compute", over) for _ in range(4)]
    assert allocator.reserved_bytes == 20 * MIB
    for i in (0, 2, 1, 3):
        allocator.drop(blocks[i])
    (whole,) = allocator.free.values()
    assert (whole.address, whole.size, whole.whole) == (0, 20 * MIB, True)


def test_what_is_left_between_used_blocks_does_not_serve_a_larger_one() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.take(5 * MIB, "compute", over) for _ in range(4)]
    allocator.drop(blocks[0])
    allocator.drop(blocks[2])
    allocator.take(8 * MIB, "compute", over)  # 10 MiB are free, in two pieces
    assert allocator.reserved_bytes == 40 * MIB


def test_streams_share_nothing() -> None:
    allocator = CachingAllocator()
    allocator.drop(allocator.take(30 * MIB, "compute", over))
    allocator.take(30 * MIB, "copy", over)
    assert allocator.reserved_bytes == 60 * MIB


def test_small_and_large_ones_share_nothing() -> None:
    allocator = CachingAllocator()
    allocator.drop(allocator.take(MIB, "compute", over))
    allocator.take(MIB + 1, "compute", over)
    assert allocator.reserved_bytes == 22 * MIB


def test_a_block_that_another_stream_drops_serves_again_once_that_is_over() -> None:
    allocator = CachingAllocator()
    allocator.drop_after(allocator.take(30 * MIB, "copy", over), 7)
    allocator.take(30 * MIB, "copy", running)
    assert allocator.reserved_bytes == 60 * MIB
    allocator.take(30 * MIB, "copy", lambda op: op == 7)
    assert allocator.reserved_bytes == 60 * MIB


def test_a_full_device_gets_back_what_is_free() -> None:
    allocator = CachingAllocator(limit_bytes=100 * MIB)
    allocator.drop(allocator.take(60 * MIB, "compute", over))
    allocator.drop_after(allocator.take(30 * MIB, "copy", over), 1)
    allocator.take(70 * MIB, "all_gather", running)
    assert allocator.reserved_bytes == 70 * MIB
    assert allocator.n_retries == 1


def test_what_is_partly_used_cannot_be_given_back() -> None:
    allocator = CachingAllocator(limit_bytes=100 * MIB)
    first, second = (allocator.take(5 * MIB, "compute", over) for _ in range(2))
    allocator.drop(first)
    allocator.take(90 * MIB, "compute", over)
    assert allocator.reserved_bytes == 110 * MIB
    assert not second.free


@given(
    st.lists(
        st.tuples(st.integers(1, 24 * MIB), st.sampled_from(["a", "b"]), st.integers(0, 8)),
        max_size=60,
    )
)
def test_blocks_never_overlap_and_all_comes_back(
    requests: list[tuple[int, str, int]],
) -> None:
    allocator = CachingAllocator()
    live: list[Block] = []
    for nbytes, stream, victim in requests:
        live.append(allocator.take(nbytes, stream, over))
        assert live[-1].size >= nbytes
        if victim < len(live):
            allocator.drop(live.pop(victim))
        pieces = sorted((b.address, b.size) for b in [*live, *allocator.free.values()])
        ends = [address + size for address, size in pieces]
        assert [address for address, _ in pieces] == [0, *ends[:-1]]
        assert ends[-1] == allocator.reserved_bytes
    for block in live:
        allocator.drop(block)
    assert all(block.whole for block in allocator.free.values())
