"""A collective's kind, group and size, from what a trace says of it."""

from __future__ import annotations

import pytest

from zerosim.importers.kineto.facts import (
    Facts,
    count_elements,
    dtype_of,
    from_metadata,
    from_shapes,
    kind_of,
    ranks_of,
)
from zerosim.kinds import Kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_allgather_base", Kind.ALL_GATHER),
        ("allgather_into_tensor_coalesced", Kind.ALL_GATHER),
        ("_reduce_scatter_base", Kind.REDUCE_SCATTER),
        ("allreduce", Kind.ALL_REDUCE),
        ("all_to_allv", Kind.ALL_TO_ALL),
        ("broadcast", Kind.BROADCAST),
        ("barrier", Kind.BARRIER),
        ("send", Kind.P2P),
        ("recv", Kind.P2P),
        ("gather", Kind.GATHER),
        ("scatter", Kind.SCATTER),
        ("reduce", Kind.REDUCE),
        ("gloo:all_reduce", Kind.ALL_REDUCE),
        ("c10d::_reduce_scatter_base_", Kind.REDUCE_SCATTER),
        ("c10d::alltoall_base_", Kind.ALL_TO_ALL),
        ("nccl:_all_gather_base", Kind.ALL_GATHER),
        ("nccl:coalesced", Kind.COLLECTIVE),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", Kind.ALL_REDUCE),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(args)", Kind.REDUCE_SCATTER),
        ("ncclSymkDevKernel_AllGather_LL", Kind.ALL_GATHER),
        ("ncclDevKernel_SendRecv(args)", Kind.COLLECTIVE),
        ("ncclDevKernel_Generic", Kind.COLLECTIVE),
    ],
)
def test_names_tell_the_kind(name: str, kind: Kind) -> None:
    assert kind_of(name) is kind


@pytest.mark.parametrize(
    ("written", "dtype"),
    [
        ("BFloat16", "bfloat16"),
        ("c10::BFloat16", "bfloat16"),
        ("Float", "float32"),
        ("float", "float32"),
        ("float8e4m3", "float8_e4m3fn"),
        ("c10::Half", "float16"),
        ("double", "float64"),
        ("long int", "int64"),
        ("Byte", "uint8"),
        ("Float8_e4m3fn", "float8_e4m3fn"),
        ("Quaternion", "Quaternion"),
        ("", None),
        (None, None),
    ],
)
def test_dtypes_bear_torchs_names(written: object, dtype: str | None) -> None:
    assert dtype_of(written) == dtype


def metadata(name: str, **more: object) -> dict[str, object]:
    return {
        "Collective name": name,
        "In msg nelems": 4,
        "Out msg nelems": 8,
        "Group size": 2,
        "dtype": "BFloat16",
        "Process Group Name": "dp",
        "Process Group Ranks": "[0, 1]",
        **more,
    }


def test_an_all_gather_counts_its_output() -> None:
    facts = from_metadata(metadata("_allgather_base"))
    assert facts == Facts(Kind.ALL_GATHER, "dp", 2, (0, 1), 8, "bfloat16", None)
    assert facts is not None
    assert facts.nbytes == 16


def test_a_reduce_scatter_counts_its_input() -> None:
    sizes = {"In msg nelems": 8, "Out msg nelems": 4}
    facts = from_metadata(metadata("_reduce_scatter_base", **sizes))
    assert facts is not None
    assert (facts.elements, facts.nbytes) == (8, 16)


def test_a_receive_counts_what_came() -> None:
    facts = from_metadata(metadata("recv", **{"In msg nelems": 0}))
    assert facts is not None
    assert facts.elements == 8


def test_a_barrier_carries_nothing_and_a_wait_is_no_collective() -> None:
    barrier = from_metadata(metadata("barrier"))
    assert barrier is not None
    assert barrier.elements is None
    assert from_metadata(metadata("wait")) is None
    assert from_metadata({"dtype": "Float"}) is None


def test_unknown_sizes_are_unknown_not_zero() -> None:
    facts = from_metadata({"Collective name": "allreduce"})
    assert facts == Facts(Kind.ALL_REDUCE)
    assert facts is not None
    assert facts.nbytes is None


def test_an_unknown_dtype_leaves_the_bytes_unknown() -> None:
    facts = from_metadata(metadata("allreduce", dtype="Quaternion"))
    assert facts is not None
    assert (facts.elements, facts.nbytes) == (4, None)


def test_hostile_values_are_unknown() -> None:
    bad = {
        "In msg nelems": -5,
        "Group size": "two",
        "Process Group Ranks": "[" * 9999,
        "Seq": 2**64,
    }
    facts = from_metadata(metadata("allreduce", **bad))
    assert facts == Facts(Kind.ALL_REDUCE, "dp", None, None, None, "bfloat16", None)


def test_a_sequence_number_is_kept() -> None:
    facts = from_metadata(metadata("allreduce", Seq=12))
    assert facts is not None
    assert facts.sequence == 12


def test_ranks_come_as_text_or_list_and_a_cut_list_is_none() -> None:
    assert ranks_of("[0, 1, 2]") == (0, 1, 2)
    assert ranks_of([3, 4]) == (3, 4)
    assert ranks_of("[0, 1, ...]") is None
    assert ranks_of([]) is None
    assert ranks_of("[0, null]") is None


def test_shapes_give_a_size() -> None:
    assert count_elements([[4, 3], [2]]) == 12
    assert count_elements([[[5], [2, 2]], []]) == 9
    assert count_elements([[]]) is None
    assert count_elements([]) is None
    assert count_elements("[4]") is None


@pytest.mark.parametrize("shape", [[-4, -3], ["x", "y"], [2**40, 2**40], [True]])
def test_a_shape_that_is_none_gives_no_size(shape: list[object]) -> None:
    assert count_elements([shape]) is None
    assert count_elements([[shape]]) is None


def test_bytes_that_fit_no_column_are_unknown() -> None:
    assert Facts(Kind.ALL_REDUCE, elements=2**59, dtype="float32").nbytes == 2**61
    assert Facts(Kind.ALL_REDUCE, elements=2**61, dtype="float64").nbytes is None


def test_a_mark_with_an_input_shard_counts_the_whole_if_the_group_is_known() -> None:
    args = {"Input Dims": [[4]], "Input type": ["float"]}
    assert from_shapes(Kind.ALL_GATHER, args, 2).elements == 8
    assert from_shapes(Kind.ALL_GATHER, args, None).elements is None
    assert from_shapes(Kind.ALL_REDUCE, args, None) == Facts(
        Kind.ALL_REDUCE, elements=4, dtype="float32"
    )
