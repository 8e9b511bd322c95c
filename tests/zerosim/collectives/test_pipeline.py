"""What NCCL's prediction leaves out: NVLS's first pieces, and the share of a link that is reached."""

from __future__ import annotations

import pytest

from tests.zerosim.collectives.boxes import AG, AR, GIB, KIB, MIB, box, moved, with_topology
from zerosim.collectives import transfer


def test_a_ring_is_as_long_as_nccl_says() -> None:
    assert moved("h100", 8, AG, GIB, "nccl-pipelined") == moved("h100", 8, AG, GIB)


def test_nvls_waits_for_one_piece_which_is_a_chunk_for_each_of_8_heads_and_16_channels() -> None:
    alone = moved("h100", 8, AR, GIB).alone_ns
    filled = moved("h100", 8, AR, GIB, "nccl-pipelined").alone_ns
    # At 1 GiB chunks are of 128 KiB: 16 MiB of 1024 at a time.
    wire = moved("h100", 8, AR, GIB).wire_ns
    assert filled - alone == pytest.approx(wire * 16 / 1024, abs=2)


@pytest.mark.parametrize(
    ("nbytes", "piece"), [(GIB - KIB, 8 * MIB), (64 * MIB - KIB, 4 * MIB), (8 * MIB - KIB, 2 * MIB)]
)
def test_smaller_tensors_are_cut_into_smaller_chunks(nbytes: int, piece: int) -> None:
    plain, filled = moved("h100", 8, AR, nbytes), moved("h100", 8, AR, nbytes, "nccl-pipelined")
    assert filled.latency_ns - plain.latency_ns == pytest.approx(
        plain.wire_ns * piece / nbytes, abs=2
    )


def test_nvlstree_waits_for_a_piece_up_and_one_down_for_each_doubling_of_nodes() -> None:
    two = moved("h100", 16, AR, GIB), moved("h100", 16, AR, GIB, "nccl-pipelined")
    assert two[0].by == "NVLSTree/Simple"
    assert two[1].latency_ns - two[0].latency_ns == pytest.approx(
        two[0].wire_ns * 2 * 16 / 1024, abs=2
    )


def test_a_plug_in_that_sets_larger_chunks_makes_the_first_pieces_larger() -> None:
    larger = with_topology(box("h100", 16, "nccl-pipelined"), tree_chunk=2**19)
    took = transfer(AR, 4 * GIB, 16, larger).latency_ns
    assert took > 2 * moved("h100", 16, AR, 4 * GIB, "nccl-pipelined").latency_ns


def test_the_pipeline_is_never_longer_to_fill_than_the_tensor_is_to_move() -> None:
    plain, filled = moved("h100", 8, AR, 2 * MIB), moved("h100", 8, AR, 2 * MIB, "nccl-pipelined")
    assert plain.by == "NVLS/Simple"
    assert filled.latency_ns - plain.latency_ns <= plain.wire_ns


def test_a_share_of_the_link_makes_bytes_slower_and_leaves_latency() -> None:
    plain = moved("a100", 8, AG, GIB)
    shared = transfer(AG, GIB, 8, with_topology(box("a100", 8, "nccl-pipelined"), intra_share=0.5))
    assert shared.latency_ns == plain.latency_ns
    assert shared.wire_ns == pytest.approx(2 * plain.wire_ns, rel=1e-6)


def test_a_share_of_nvlink_counts_for_nothing_where_the_network_is_slower() -> None:
    cluster = with_topology(box("a100", 16, "nccl-pipelined"), intra_share=0.5)
    assert transfer(AG, GIB, 16, cluster) == moved("a100", 16, AG, GIB, "nccl-pipelined")


def test_a_plug_in_without_order_leaves_only_simple() -> None:
    cluster = with_topology(box("a100", 16), low_latency=False)
    assert {transfer(AR, n * KIB, 16, cluster).by for n in (1, 64, 4096)} == {"tree/Simple"}
