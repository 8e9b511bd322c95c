"""nccl-tests as it writes JSON (-J FILE): the same table, with the ranks in its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from zerosim.errors import MeasurementError
from zerosim.kinds import Kind
from zerosim.validation.measured import MAX_ROWS, Timing, checked, torch_dtype
from zerosim.validation.nccl_tests import Log, Said, program_kind, version_text

_SIDES: Final = (("out_of_place", False), ("in_place", True))


def read_json_log(name: str, text: str, said: Said) -> Log:
    """The rows of a JSON log, which `name` stands for in errors. Raises MeasurementError.

    It may hold secrets of the machine that wrote it (its environment): they are not looked at.
    """
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise MeasurementError(f"{name} is no JSON ({error}): run nccl-tests to its end") from None
    results = record.get("results") if isinstance(record, Mapping) else None
    if not isinstance(results, list):
        raise MeasurementError(f"{name} has no 'results' of nccl-tests: give the file of its -J")
    if len(results) > MAX_ROWS:
        raise MeasurementError(f"{name} has more than {MAX_ROWS} rows: give fewer runs a file")
    devices = _devices(record)
    kind = _kind(record) or said.kind
    if kind is None:
        raise MeasurementError(
            f"{name} does not name its collective: give --collective, e.g. all_gather"
        )
    n_ranks = _n_ranks(record, devices) or said.n_ranks
    if n_ranks is None:
        raise MeasurementError(f"{name} does not list its ranks: give --ranks N")
    n_nodes = said.n_nodes or (len({d["hostname"] for d in devices}) if devices else None)
    timings, skipped = list[Timing](), 0
    for index, row in enumerate(results):
        found = _row(row, (kind, n_ranks, n_nodes), f"{name} results[{index}]")
        skipped += not found
        timings += found
    if not timings:
        raise MeasurementError(f"{name} has no times: run nccl-tests to its end")
    version = record.get("nccl_version")
    return Log(
        tuple(timings),
        gpu=str(devices[0].get("device_info", ""))[:100].strip() if devices else "",
        launcher=_launcher(record),
        nccl=version_text(version) if isinstance(version, int) and version > 0 else "",
        skipped=skipped,
    )


def _devices(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    config = record.get("config")
    devices = config.get("devices") if isinstance(config, Mapping) else None
    if not isinstance(devices, list):
        return []
    return [d for d in devices if isinstance(d, Mapping) and isinstance(d.get("hostname"), str)]


def _kind(record: Mapping[str, Any]) -> Kind | None:
    args = record.get("args")
    return program_kind(str(args[0])) if isinstance(args, list) and args else None


def _gpus_a_process(record: Mapping[str, Any]) -> int:
    config = record.get("config")
    if not isinstance(config, Mapping):
        return 0
    threads, gpus = config.get("nthreads"), config.get("ngpus")
    return threads * gpus if isinstance(threads, int) and isinstance(gpus, int) else 0


def _n_ranks(record: Mapping[str, Any], devices: list[Mapping[str, Any]]) -> int | None:
    """Each process writes one device only, whatever it drives (nccl-tests src/util.cu)."""
    return len(devices) * _gpus_a_process(record) or None


def _launcher(record: Mapping[str, Any]) -> str:
    gpus = _gpus_a_process(record)
    return "" if gpus < 1 else "process-per-gpu" if gpus == 1 else "one-process"


def _row(row: object, of: tuple[Kind, int, int | None], place: str) -> list[Timing]:
    if not isinstance(row, Mapping):
        raise MeasurementError(f"{place} is {str(row)[:40]!r}: give a table of size and times")
    size = row.get("size")
    if not isinstance(size, int):
        raise MeasurementError(f"{place}: size is {str(size)[:40]!r}: give whole bytes")
    if size == 0:
        return []
    timings = []
    for side, in_place in _SIDES:
        cell = row.get(side)
        if cell is None:
            continue
        time = cell.get("time") if isinstance(cell, Mapping) else None
        if not isinstance(time, int | float):
            raise MeasurementError(f"{place}: {side} has no 'time': run without -C 1")
        wrong = cell.get("nwrong")
        if isinstance(wrong, int | float) and wrong > 0:
            raise MeasurementError(
                f"{place}: {wrong:g} elements came out wrong: mend the machine and run again"
            )
        kind, n_ranks, n_nodes = of
        dtype = torch_dtype(str(row.get("type")))
        timing = Timing(kind, n_ranks, n_nodes, size, time / 1e6, dtype, in_place)
        timings.append(checked(timing, place))
    return timings
