"""A run's summary as text: what `simulate` and `show` print for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zerosim.analysis.summary import busiest_whole
from zerosim.cli.output import print_json, print_rows
from zerosim.cluster import Device
from zerosim.units import format_bytes, format_count, format_ns

MAX_ORDER_CHARACTERS: Final = 400


def print_summary(summary: Mapping[str, Any], *, json: bool) -> None:
    """Write a run's figures to stdout, as JSON or as text."""
    if json:
        print_json(summary)
    else:
        print_rows(summary_rows(summary))


def summary_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each line; what is unknown says so."""
    return [
        ("run", f"{summary['name']} ({summary['source']}, {_known(summary['world_size'])} ranks)"),
        ("order", _order(summary["order"])),
        ("step", format_ns(summary["step_ns"])),
        ("compute", format_ns(summary["compute_ns"])),
        ("communication", format_ns(summary["comm_ns"])),
        ("exposed", f"{format_ns(summary['exposed_ns'])} (overlap {_share(summary['overlap'])})"),
        ("tokens", _known(summary["tokens_per_s_per_rank"], "{:,.0f} per second and rank")),
        ("MFU", _mfu(summary["mfu"], summary["mfu_causal"])),
        ("peak memory", _bytes(summary["peak_bytes"], "allocated per rank")),
        *_reserved(summary["peak_reserved_bytes"]),
        ("sent", _bytes(summary["bytes_sent"], "per rank and step")),
        ("engine", _known(summary["engine"])),
        *_skew(summary["skew"]),
        *_quality(summary["quality"]),
    ]


def imported_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The same for a run of which little may be known: what is not stands in one line, at the end.

    Of a run without steps, what the busiest rank did in all of it.
    """
    rows = summary_rows(summary)
    unknown = [name for name, value in rows if value.split(" (")[0] == "unknown"]
    known = [row for row in rows if row[0] not in unknown]
    return known + _whole(summary) + ([("not known", ", ".join(unknown))] if unknown else [])


def _whole(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = busiest_whole(summary)
    if found is None:
        return []
    rank, busy = found
    parts = (
        ("compute", busy.compute_ns),
        ("communication", busy.comm_ns),
        ("exposed", busy.exposed_ns),
    )
    told = ", ".join(f"{name} {format_ns(ns)}" for name, ns in parts)
    return [("whole run", f"{told} (rank {rank}, the busiest)")]


def fits_row(peak_bytes: int | None, device: Device) -> tuple[str, str]:
    """The line that answers whether the peak fits the device, and how much of it that takes.

    Allocated bytes alone: the device's context and fragmentation come on top.
    """
    if peak_bytes is None:
        return "fits", "unknown"
    share = peak_bytes / device.memory_bytes
    answer = "yes" if share <= 1 else "no"
    return "fits", f"{answer}: {share:.1%} of {format_bytes(device.memory_bytes)} ({device.name})"


def padding_row(padded: int, plain: int) -> tuple[str, str]:
    """The line that shows how much padding there is in parameters split over the ranks."""
    share = (padded - plain) / plain
    return "padding", f"{padded - plain:,} of {format_count(plain)} parameters ({share:.3%})"


def _known(value: object, form: str = "{}") -> str:
    return "unknown" if value is None else form.format(value)


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _mfu(full: float | None, causal: float | None) -> str:
    return "unknown" if full is None else f"{full:.1%} (causal {_share(causal)})"


def _bytes(nbytes: int | None, what: str) -> str:
    return "unknown" if nbytes is None else f"{format_bytes(nbytes)} {what}"


def _reserved(nbytes: int | None) -> list[tuple[str, str]]:
    return [] if nbytes is None else [("reserved", _bytes(nbytes, "per rank"))]


def _order(order: str | None) -> str:
    if order is None:
        return "unknown"
    if len(order) <= MAX_ORDER_CHARACTERS:
        return order
    return f"{order[:MAX_ORDER_CHARACTERS].rsplit(' ', 1)[0]} … ({len(order.split())} ops)"


def _skew(skew: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if not skew or skew.get("straggler") is None:
        return []
    most = max(filter(None, skew["wait_ns_per_rank"]), default=0)
    waits = f"others wait up to {format_ns(most)} for it in {skew['n']:,} collectives"
    return [("straggler", f"rank {skew['straggler']} ({waits})")]


def _quality(quality: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if not quality:
        return []
    counts = [
        f"{quality[name]:,} {name.replace('_', ' ')}"
        for name in ("repaired", "skipped", "lost", "before_window", "unsized")
        if quality[name]
    ]
    lines = [("quality", ", ".join(counts))] if counts else []
    return lines + [("warning", warning) for warning in quality["warnings"]]
