"""In which order autograd finishes gradients, parameter by parameter, and in which order torch lists them.

# Note [Gradients arrive]
Layers run backwards, and so do the modules in a layer. A module whose weight is a matrix finishes its
bias before its weight (the bias hangs nearer to the loss); one of vectors only, a norm, finishes them
as they are defined. A parameter that several layers use is complete with the first of them, and its
sum lives from the last on. As seen with torch 2.13 on the models of the equality harness.
"""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.workload import Layer, Workload

Key = tuple[int, int]
"""A parameter: its unit, and its index in the unit."""


def completed(workload: Workload) -> tuple[tuple[Key, ...], ...]:
    """Per layer, the parameters whose gradients are complete with its backward, as they arrive."""
    first = _first_use(workload)
    return tuple(
        tuple(key for key in _backwards(workload, layer) if first[key] == i)
        for i, layer in enumerate(workload.layers)
    )


def begun(workload: Workload) -> tuple[tuple[Key, ...], ...]:
    """Per layer, the parameters whose gradients its backward is the first to add to."""
    last = {key: i for i, layer in enumerate(workload.layers) for key in _keys(workload, layer)}
    return tuple(
        tuple(key for key in _backwards(workload, layer) if last[key] == i)
        for i, layer in enumerate(workload.layers)
    )


def arrived(workload: Workload) -> tuple[Key, ...]:
    """All parameters in the order in which their gradients are complete."""
    return tuple(key for layer in reversed(completed(workload)) for key in layer)


def defined(workload: Workload) -> tuple[Key, ...]:
    """All parameters as `module.parameters()` lists them: layer by layer, each once."""
    return tuple(_first_use(workload))


def numel(workload: Workload, key: Key) -> int:
    """Elements of a parameter."""
    unit, index = key
    return workload.units[unit].parameters[index].numel


def _first_use(workload: Workload) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for i, layer in enumerate(workload.layers):
        for key in _keys(workload, layer):
            found.setdefault(key, i)
    return found


def _keys(workload: Workload, layer: Layer) -> Iterator[Key]:
    for module in _modules(workload, layer):
        yield from ((layer.unit, index) for index in module)


def _backwards(workload: Workload, layer: Layer) -> Iterator[Key]:
    parameters = workload.units[layer.unit].parameters
    for module in reversed(_modules(workload, layer)):
        vectors_only = all(len(parameters[index].shape) == 1 for index in module)
        yield from ((layer.unit, i) for i in (module if vectors_only else reversed(module)))


def _modules(workload: Workload, layer: Layer) -> tuple[tuple[int, ...], ...]:
    every = tuple(range(len(workload.units[layer.unit].parameters)))
    return tuple(module.parameters for module in layer.modules) or (every,)
