"""Units: whole nanoseconds, bytes of a dtype, numbers as people read them."""

from __future__ import annotations

import math

import pytest

from zerosim.errors import InputError, UnknownNameError
from zerosim.units import (
    dtype_bytes,
    format_bytes,
    format_count,
    format_ns,
    read_delay,
    read_number,
    read_rate,
    seconds_to_ns,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7.5e9", 7.5e9),
        ("7B", 7e9),
        ("1.5T", 1.5e12),
        ("80GB", 8e10),
        ("24 GiB", 24 * 2**30),
        ("0", 0),
        ("1.2.3", None),
        ("-1", None),
        ("nan", None),
        ("7Q", None),
        ("", None),
    ],
)
def test_numbers_are_read_with_the_units_people_write(text: str, number: float | None) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize(
    ("dtype", "nbytes"),
    [("float64", 8), ("float32", 4), ("bfloat16", 2), ("float16", 2), ("float8_e4m3fn", 1)],
)
def test_bytes_of_a_dtype(dtype: str, nbytes: int) -> None:
    assert dtype_bytes(dtype) == nbytes


def test_an_unknown_dtype_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="no dtype 'float23': did you mean 'float32'"):
        dtype_bytes("float23")


@pytest.mark.parametrize(
    ("seconds", "ns"),
    [(0.0, 0), (1.0, 10**9), (1e-9, 1), (1.2e-9, 2), (0.1e-9, 1), (0.3, 3 * 10**8)],
)
def test_seconds_become_whole_nanoseconds_rounded_up(seconds: float, ns: int) -> None:
    assert seconds_to_ns(seconds) == ns


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_a_duration_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="a duration of"):
        seconds_to_ns(seconds)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "unknown"),
        (7, "7 ns"),
        (1500, "1.5 µs"),
        (2.5e6, "2.5 ms"),
        (-2.5e6, "-2.5 ms"),
        (46.7e9, "46.7 s"),
        (999_400_000, "999 ms"),
        (999_999_999, "1 s"),
        (12_345e9, "12,345 s"),
    ],
)
def test_times_as_people_read_them(ns: float | None, text: str) -> None:
    assert format_ns(ns) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (None, "unknown"),
        (12, "12 B"),
        (24e9, "24 GB"),
        (16e12, "16 TB"),
        (999_999_999, "1 GB"),
        (2.3e15, "2,300 TB"),
    ],
)
def test_bytes_as_the_papers_count_them(nbytes: float | None, text: str) -> None:
    assert format_bytes(nbytes) == text


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (None, "unknown"),
        (999, "999"),
        (7.5e9, "7.5 B"),
        (1.008e12, "1.008 T"),
        (999_999_999, "1 B"),
    ],
)
def test_counts_as_people_read_them(n: float | None, text: str) -> None:
    assert format_count(n) == text


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("200Mbit", 25e6),
        ("100mbit", 12.5e6),
        ("1Gbit", 125e6),
        ("2.5 Gbit/s", 312.5e6),
        ("25MBps", 25e6),
        ("25MB/s", 25e6),
        ("800kbit", 1e5),
        ("64000bit", 8e3),
    ],
)
def test_a_rate_is_bytes_a_second(text: str, rate: float) -> None:
    assert read_rate(text) == rate


@pytest.mark.parametrize(
    "text", ["100Mbps", "0Mbit", "100", "fast", "-1Gbit", "1Gbit 2", "", "1e3Mbit"]
)
def test_a_rate_that_says_neither_bits_nor_bytes_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--inter is '.*': give bits a second, as in 200Mbit"):
        read_rate(text, "--inter")


@pytest.mark.parametrize(("text", "seconds"), [("50us", 5e-5), ("1.5ms", 1.5e-3), ("0s", 0.0)])
def test_a_delay_is_seconds(text: str, seconds: float) -> None:
    assert read_delay(text) == pytest.approx(seconds)


def test_a_delay_without_a_unit_is_refused() -> None:
    with pytest.raises(InputError, match="--latency is '5': give a time, as in 50us or 1ms"):
        read_delay("5", "--latency")
