"""Tables of measured collectives: blank cells are left out and counted, impossible ones refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.errors import MeasurementError
from zerosim.kinds import Kind
from zerosim.validation.collective_rows import read_rows, rows_from

HEAD = "row_id,series_id,collective,ranks,nodes,dtype,bytes,placement,time_us,split\n"
SHARED = Path(__file__).parents[4] / "shared" / "measured" / "collectives.csv"


def test_a_row_says_what_was_moved_and_where_it_is_from() -> None:
    (row,) = rows_from("a.csv", HEAD + "C1,s,all_reduce,8,1,float,1024,in-place,12.5,calib\n").rows
    assert (row.row_id, row.series, row.split) == ("C1", "s", "calib")
    assert (row.timing.kind, row.timing.n_ranks, row.timing.n_nodes) == (Kind.ALL_REDUCE, 8, 1)
    assert (row.timing.nbytes, row.timing.dtype, row.timing.in_place) == (1024, "float32", True)
    assert row.timing.seconds == pytest.approx(12.5e-6)


def test_a_row_without_its_time_is_left_out_with_the_reason() -> None:
    text = HEAD + "C1,s,all_reduce,8,1,,1024,,12.5,\nC2,s,all_reduce,8,1,,1024,,,\n"
    found = rows_from("a.csv", text)
    assert len(found.rows) == 1
    assert found.left_out == (("C2", "s", "time_us is blank: fill it in, or leave the row out"),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("collective,ranks,bytes\n", "has no column 'time_us'"),
        ("", "has no column 'collective'"),
        (HEAD, "has no row with collective"),
        (HEAD + "C1,s,gossip,8,1,,1024,,1,\n", "collective is 'gossip': give one of all_gather"),
        (HEAD + "C1,s,reduce,8.5,1,,1024,,1,\n", r"ranks is 8\.5: give a whole number"),
        (HEAD + "C1,s,reduce,8,9,,1024,,1,\n", "nodes is 9: give 1 to 8"),
        (HEAD + "C1,s,reduce,8,1,,1024,,soon,\n", "'soon' is no number"),
        (HEAD + "C1,s,reduce,8,1,,1024,,1,,,,\n", "more cells than columns"),
        (HEAD + '"C1\n', "is no CSV"),
        (HEAD + "C1,s,reduce,8,1,,1024,,0,\n", "the time is 0.0 s"),
    ],
)
def test_a_table_that_cannot_be_true_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(MeasurementError, match=sentence):
        rows_from("a.csv", text)


def test_rows_that_cannot_be_true_are_left_out_of_a_file_that_is_scored(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    row = "reduce,8,1,,1024,,{},\n"
    times = ("1", "soon", "nan", "0", "1e-9")
    path.write_text(HEAD + "".join(f"C{i},s,{row.format(t)}" for i, t in enumerate(times)))
    found = read_rows(path)
    assert [row.row_id for row in found.rows] == ["C0"]
    assert [why.partition(":")[0] for _, _, why in found.left_out] == [
        "time_us",
        "the time is nan s",
        "the time is 0.0 s",
        "1024 bytes in 1e-15 s is more than any link carries",
    ]


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/measured is not beside the repository")
def test_the_shared_table_is_read_whole() -> None:
    found = read_rows(SHARED)
    assert (len(found.rows), len(found.left_out)) == (1060, 15)
