"""Steps and micro-batches, as forwards and optimizers tell them."""

from __future__ import annotations

from zerosim_runtime.tracing.steps import Steps


def steps() -> tuple[Steps, list[int]]:
    told: list[int] = []
    return Steps(lambda step, _, __: told.append(step)), told


def test_what_comes_before_the_first_forward_is_of_no_step() -> None:
    counted, _ = steps()
    assert (counted.step, counted.micro_batch) == (None, None)


def test_a_step_begins_with_the_first_forward_after_an_optimizer() -> None:
    counted, told = steps()
    assert counted.forward()
    assert (counted.step, counted.micro_batch) == (1, 0)
    assert not counted.forward()
    assert (counted.step, counted.micro_batch) == (1, 0)
    counted.backward()
    assert not counted.forward()
    assert (counted.step, counted.micro_batch) == (1, 1)
    counted.optimizer()
    assert (counted.step, told) == (1, [])
    assert counted.forward()
    assert (counted.step, counted.micro_batch, told) == (2, 0, [1])


def test_several_optimizers_after_a_forward_are_one_step() -> None:
    counted, told = steps()
    for _ in range(2):
        counted.forward()
        counted.optimizer()
        counted.optimizer()
    counted.close()
    assert told == [1, 2]


def test_a_program_without_modules_counts_its_optimizer() -> None:
    counted, told = steps()
    for _ in range(3):
        counted.optimizer()
    counted.close()
    assert told == [1, 2, 3]


def test_a_run_that_ends_in_a_step_leaves_it_out() -> None:
    counted, told = steps()
    counted.forward()
    counted.close()
    assert told == []
