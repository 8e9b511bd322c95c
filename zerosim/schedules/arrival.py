"""In which order autograd finishes gradients, parameter by parameter, and in which order torch lists them.

# Note [Gradients arrive]
Layers run backwards, and so do the modules in a layer. A module whose weight is a matrix finishes its
bias before its weight (the bias hangs nearer to the loss, the weight takes one more node, its
transpose); one of vectors only, a norm, finishes them as they are defined. A parameter that several
layers use is complete with the first of them, and its sum lives from the last on. One that no module
of a layer names gets no gradient from it. As seen with torch 2.13 on the models of the equality
harness, and in the recordings of DeepSpeed, ColossalAI and Megatron-LM.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zerosim.workload import Layer, Unit, Workload

Key = tuple[int, int]
"""A parameter: its unit, and its index in the unit."""


def used(workload: Workload) -> tuple[tuple[Key, ...], ...]:
    """Per layer, the parameters it computes with, as its modules list them, each once."""
    return tuple(
        tuple(
            dict.fromkeys((layer.unit, i) for module in _modules(workload, layer) for i in module)
        )
        for layer in workload.layers
    )


def completed(workload: Workload) -> tuple[tuple[Key, ...], ...]:
    """Per layer, the parameters whose gradients are complete with its backward, as they arrive."""
    first = _first_use(workload)
    return tuple(
        tuple(key for key in _backwards(workload, layer) if first[key] == i)
        for i, layer in enumerate(workload.layers)
    )


def begun(workload: Workload) -> tuple[tuple[Key, ...], ...]:
    """Per layer, the parameters whose gradients its backward is the first to add to."""
    last = layer_of(used(workload))
    return tuple(
        tuple(key for key in _backwards(workload, layer) if last[key] == i)
        for i, layer in enumerate(workload.layers)
    )


def arrived(workload: Workload) -> tuple[Key, ...]:
    """All parameters in the order in which their gradients are complete."""
    return tuple(key for layer in reversed(completed(workload)) for key in layer)


def defined(workload: Workload) -> tuple[Key, ...]:
    """All parameters that a layer uses, as `module.parameters()` lists them: layer by layer, each once."""
    return tuple(_first_use(workload))


def listed(workload: Workload) -> tuple[Key, ...]:
    """All parameters as `module.parameters()` lists them; those that no layer uses come last."""
    every = [(u, i) for u, unit in enumerate(workload.units) for i in range(len(unit.parameters))]
    return tuple(dict.fromkeys((*defined(workload), *every)))


def handed(unit: Unit, module: Sequence[int]) -> tuple[int, ...]:
    """The parameters of a module (indices in `unit`) as its backward hands out their gradients."""
    vectors_only = all(len(unit.parameters[index].shape) <= 1 for index in module)
    return tuple(module) if vectors_only else tuple(reversed(module))


def layer_of(per_layer: Iterable[tuple[Key, ...]]) -> dict[Key, int]:
    """The layer of each parameter, in what `completed` or `begun` says; of several the last."""
    return {key: i for i, keys in enumerate(per_layer) for key in keys}


def numel(workload: Workload, key: Key) -> int:
    """Elements of a parameter."""
    unit, index = key
    return workload.units[unit].parameters[index].numel


def _first_use(workload: Workload) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for i, keys in enumerate(used(workload)):
        for key in keys:
            found.setdefault(key, i)
    return found


def _backwards(workload: Workload, layer: Layer) -> tuple[Key, ...]:
    """A layer's parameters as its backward hands them out; one in several modules with the first."""
    unit = workload.units[layer.unit]
    modules = reversed(_modules(workload, layer))
    last_first = [(layer.unit, i) for module in modules for i in handed(unit, module)]
    return tuple(reversed(dict.fromkeys(reversed(last_first))))


def _modules(workload: Workload, layer: Layer) -> tuple[tuple[int, ...], ...]:
    """The parameters of each module of a layer; of one that lists none, all of its unit, by name."""
    if layer.modules:
        return tuple(module.parameters for module in layer.modules)
    by_name: dict[str, list[int]] = {}
    for i, parameter in enumerate(workload.units[layer.unit].parameters):
        by_name.setdefault(parameter.name.rpartition(".")[0], []).append(i)
    return tuple(map(tuple, by_name.values()))
