"""DeepSpeed's ds_config.json: ZeRO's own keys are the schedule's options; `auto` is filled in as its caller does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zerosim.configs.deepspeed_keys import OTHER, ZERO
from zerosim.configs.document import Document, Place
from zerosim.configs.draft import (
    AUTO,
    Draft,
    Leaf,
    Rule,
    checked,
    elsewhere,
    quiet,
    read,
    shown,
)
from zerosim.errors import ScenarioError
from zerosim.schedules import SCHEDULES
from zerosim.schedules.knobs import Knob, knobs

ENGINE: Final = "DeepSpeed"
_OPTIMIZERS: Final = {"adam": "adam", "adamw": "adamw", "sgd": "sgd"}
_BATCH: Final = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
)
_ELSEWHERE: Final = ("communication_data_type", "grad_accum_dtype", "use_reentrant")
"""Options of a schedule that are no keys of zero_optimization."""
_HALVES: Final = {"bf16": "bfloat16", "fp16": "float16"}


def is_deepspeed(tree: Mapping[str, Any]) -> bool:
    """Whether a file is one of DeepSpeed's."""
    return any(key in tree for key in ("zero_optimization", *_BATCH, *_HALVES))


def read_deepspeed(document: Document, draft: Draft, auto: Mapping[str, tuple[Any, str]]) -> None:
    """Read a ds_config into `draft`.

    `auto`: what the caller of DeepSpeed (transformers' Trainer, Accelerate) fills in for which key,
    and why. Raises ScenarioError, UnknownNameError.
    """
    zero = document.tree.get("zero_optimization", {})
    stage = zero.get("stage", 0) if isinstance(zero, Mapping) else zero
    place = document.place(("zero_optimization", "stage"))
    if stage not in (1, 2, 3) or type(stage) is not int:
        raise ScenarioError(f"{place} is {stage!r}: zerosim reads ZeRO's stages 1, 2 and 3")
    draft.schedule(f"deepspeed-{stage}", place, ENGINE)
    if draft.get("numerics.dtype") is None:
        draft.put("numerics.dtype", "float32", f"default of {ENGINE}")
    options = knobs(SCHEDULES[f"deepspeed-{stage}"].options)
    rules = _rules(options) | dict.fromkeys(_BATCH, elsewhere)
    read(document, draft, {key: _filled(key, rule, auto) for key, rule in rules.items()})
    _batches(document, draft, auto)


def _rules(options: tuple[Knob, ...]) -> dict[str, Rule]:
    names = _named(options)
    others = _named(
        tuple(
            knob
            for schedule in ("deepspeed-1", "deepspeed-2", "deepspeed-3")
            for knob in knobs(SCHEDULES[schedule].options)
        )
    )
    zero: dict[str, Rule] = dict.fromkeys(others, quiet)
    zero |= ZERO | {name: _option(knob) for name, knob in names.items()}
    zero = {f"zero_optimization.{k}": rule for k, rule in zero.items() if k not in _ELSEWHERE}
    zero["zero_optimization.stage"] = elsewhere
    zero["zero_optimization.leaf_module"] = _leaves if "leaf_module" in names else quiet
    top: dict[str, Rule] = {
        "bf16.enabled": _half("bf16"),
        "fp16.enabled": _half("fp16"),
        "optimizer.type": _optimizer,
        "communication_data_type": _option(names["communication_data_type"]),
        "data_types.grad_accum_dtype": _option(names["grad_accum_dtype"]),
    }
    return OTHER | zero | top


def _named(options: tuple[Knob, ...]) -> dict[str, Knob]:
    return {name: knob for knob in options for name in (knob.name, knob.alias) if name is not None}


def _option(knob: Knob) -> Rule:
    def rule(leaf: Leaf) -> None:
        value = leaf.value
        if value is None and knob.default is not None and type(None) not in knob.kinds:
            return  # null is DeepSpeed's own default
        if int in knob.kinds and type(value) is float and value.is_integer():
            value = int(value)
        if value is not None and type(value) not in knob.kinds:
            kinds = " or ".join(kind.__name__ for kind in knob.kinds)
            raise leaf.wrong(f"{ENGINE} takes a value of type {kinds}")
        leaf.draft.put(f"schedule.{knob.name}", value, leaf.place)

    return rule


def _leaves(leaf: Leaf) -> None:
    given = leaf.value if isinstance(leaf.value, Mapping) else {}
    if given.get("classes") or given.get("name_suffixes"):
        raise leaf.wrong("zerosim knows modules by name: give leaf_module.names")
    names = ",".join(str(name) for name in given.get("names", ()))
    leaf.draft.put("schedule.leaf_module", names, leaf.place)


def _half(kind: str) -> Rule:
    def rule(leaf: Leaf) -> None:
        if checked(leaf, bool):
            leaf.draft.put("numerics.dtype", _HALVES[kind], leaf.place)
            return
        quiet(leaf)
        if AUTO in leaf.place.key and leaf.draft.get("numerics.dtype") == "float32":
            leaf.draft.put("numerics.dtype", "float32", leaf.place)

    return rule


def _optimizer(leaf: Leaf) -> None:
    name = _OPTIMIZERS.get(str(leaf.value).lower())
    if name is None:
        raise leaf.wrong(f"zerosim knows the states of {', '.join(_OPTIMIZERS)}")
    leaf.draft.put("numerics.optimizer", name, leaf.place)


def _filled(key: str, rule: Rule, auto: Mapping[str, tuple[Any, str]]) -> Rule:
    """The rule with `auto` replaced by what the caller fills in; the origin says so."""

    def filled(leaf: Leaf) -> None:
        if leaf.value != AUTO or rule is quiet or rule is elsewhere:
            rule(leaf)
            return
        short = key.rpartition(".")[2]
        if short in ("fp16", "bf16", "enabled"):
            short = key
        if short not in auto:
            raise leaf.wrong("nobody fills in this 'auto': write a value")
        value, why = auto[short]
        if value is None:
            raise leaf.wrong(why)
        key_says = f"{leaf.place.key} auto → {shown(value)} ({why})"
        place = Place(leaf.place.file, leaf.place.line, key_says)
        rule(Leaf(leaf.draft, leaf.keys, value, place))

    return filled


def hidden_autos(draft: Draft) -> dict[str, tuple[Any, str]]:
    """What transformers and Accelerate fill in from the model's hidden size h."""
    hidden = draft.number_asked("hidden") or draft.get("workload.hidden")
    if not isinstance(hidden, int):
        missing = "it is filled in from the model's hidden size: give --model-config, or a number"
        if draft.get("workload.record") is not None:
            missing = "an extracted model does not say its hidden size: write a number"
        return dict.fromkeys(_HIDDEN, (None, missing))
    square = hidden * hidden
    return {
        "reduce_bucket_size": (square, f"h² of h = {hidden}"),
        "stage3_prefetch_bucket_size": (int(0.9 * hidden * hidden), f"0.9·h² of h = {hidden}"),
        "stage3_param_persistence_threshold": (10 * hidden, f"10·h of h = {hidden}"),
    }


_HIDDEN: Final = (
    "reduce_bucket_size",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
)


def trainer_autos(draft: Draft) -> dict[str, tuple[Any, str]]:
    """What transformers' Trainer fills in, with its arguments at their defaults."""
    name = "default of transformers.TrainingArguments"
    return {
        "train_micro_batch_size_per_gpu": (8, f"{name}.per_device_train_batch_size"),
        "gradient_accumulation_steps": (1, f"{name}.gradient_accumulation_steps"),
        "bf16.enabled": (False, f"{name}.bf16"),
        "fp16.enabled": (False, f"{name}.fp16"),
        **hidden_autos(draft),
    }


def _batches(document: Document, draft: Draft, auto: Mapping[str, tuple[Any, str]]) -> None:
    """DeepSpeed's rule: train_batch_size = micro-batch · accumulation · ranks; two of them do."""
    ranks: int = draft.get("cluster.world_size")
    total, micro, steps = (_batch(document, draft, key, auto) for key in _BATCH)
    place = document.place(("train_batch_size",))
    if total is None and micro is None:
        raise ScenarioError(
            f"{document.name}: DeepSpeed asks for train_batch_size or "
            "train_micro_batch_size_per_gpu: give one"
        )
    if micro is None and total is not None:
        each = total[0] // (ranks * (1 if steps is None else steps[0]))
        micro = (each, f"{place} / ranks / accumulation")
    if steps is None:
        derived = 1 if total is None or micro is None else total[0] // (micro[0] * ranks)
        steps = (
            derived,
            f"default of {ENGINE}" if total is None else f"{place} / micro-batch / ranks",
        )
    if micro is None or (total is not None and total[0] != micro[0] * steps[0] * ranks):
        found = 0 if micro is None else micro[0]
        raise ScenarioError(
            f"{place} is {total and total[0]}: DeepSpeed asks for micro_batch_per_gpu · "
            f"gradient_acc_step · world_size, {found} · {steps[0]} · {ranks}; set world_size, or mend it"
        )
    draft.put("workload.micro_batch", *micro)
    draft.put("workload.micro_batches", *steps)


def _batch(
    document: Document, draft: Draft, key: str, auto: Mapping[str, tuple[Any, str]]
) -> tuple[int, object] | None:
    value, place = document.tree.get(key), document.place((key,))
    if value is None or (value == AUTO and key == "train_batch_size"):
        return None
    if value == AUTO:
        filled, why = auto[key]
        return filled, f"{place} auto → {filled} ({why})"
    return checked(Leaf(draft, (key,), value, place)), place
