"""Copies are seen where they happen, and the hooks change nothing else.

Without an accelerator the meta device plays its part: `is_on_device` is told so. All else is
torch as it is.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from open_runs import finish_runs
from torch import nn
from torch.nn.utils.rnn import pack_sequence

import probe
from probe.record import copies
from probe.run import current
from probe.store.queries import Steps, Store

MS = 1_000_000


@pytest.fixture(autouse=True)
def meta_is_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "is_on_device", lambda tensor: tensor.is_meta)


@pytest.fixture
def slow_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every move takes 5 ms in the calling thread, as one from pageable memory would."""
    real = torch.Tensor.to

    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        time.sleep(0.005)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "to", to)


def steps() -> Steps:
    finish_runs()
    with Store("probe.db") as store:
        return store.steps(1, 1)


def batches(count: int = 6) -> Iterator[torch.Tensor]:
    for _ in range(count):
        yield torch.ones(4, 3)


def test_a_move_in_the_loop_is_copy(slow_copies: None) -> None:
    for batch in probe.watch(batches()):
        batch.to("meta")
    found = steps()
    assert np.all(found.copy_ns > 5 * MS)
    assert np.all(found.compute_ns < 5 * MS)


def test_a_move_inside_next_is_copy_and_not_wait(slow_copies: None) -> None:
    def prefetcher() -> Iterator[torch.Tensor]:
        for batch in batches():
            yield batch.to("meta")

    for _ in probe.watch(prefetcher()):
        pass
    found = steps()
    assert np.all(found.copy_ns > 5 * MS)
    assert np.all(found.wait_ns < 5 * MS)


def test_a_move_in_another_thread_is_hidden(slow_copies: None) -> None:
    def mover(tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            tensor.to("meta")

    for batch in probe.watch(batches()):
        thread = threading.Thread(target=mover, args=([batch],))
        thread.start()
        thread.join()
    run = current()
    assert run is not None
    (record,) = run.records
    assert np.all(steps().copy_ns == 0)
    # The first batch is moved before the loop's first step is known to be a consumer's or after:
    # either way every later one is counted.
    assert 5 <= record.hidden_copies <= 6
    assert record.hidden_copy_ns >= 25 * MS


@dataclass
class Batch:
    image: torch.Tensor
    label: torch.Tensor
    name: str = "x"

    def to(self, device: str) -> Batch:
        return Batch(self.image.to(device), self.label.to(device), self.name)


@pytest.mark.parametrize(
    ("move", "count"),
    [
        (lambda: torch.ones(3).to("meta"), 1),
        (lambda: torch.ones(3).to(torch.device("meta"), non_blocking=True), 1),
        (lambda: torch.ones(3).to(torch.ones(1, device="meta")), 1),
        (lambda: torch.empty(3, device="meta").copy_(torch.ones(3)), 1),
        (lambda: torch.empty(3, device="meta").copy_(other=torch.ones(3)), 1),
        (lambda: Batch(torch.ones(3), torch.ones(1)).to("meta"), 2),
        (lambda: nn.Linear(2, 2).to("meta"), 2),
        (lambda: pack_sequence([torch.ones(3)]).to("meta"), 1),
        (lambda: torch.ones(3).to("cpu"), 0),
        (lambda: torch.ones(3).to(torch.float64), 0),
        (lambda: torch.empty(3, device="meta").to("meta"), 0),
        (lambda: torch.ones(3).copy_(torch.zeros(3)), 0),
        (lambda: torch.ones(3).clone(), 0),
    ],
)
def test_each_way_to_move_is_seen_once(move: Any, count: int) -> None:
    for index, _ in enumerate(probe.watch(range(2))):
        if index == 1:
            move()
    run = current()
    assert run is not None
    assert run.records[0].copies == count


def test_what_a_copy_was_is_counted() -> None:
    for index, _ in enumerate(probe.watch(range(2))):
        if index == 1:
            torch.ones(1000, 100).to("meta", non_blocking=True)
            torch.ones(10).to("meta")
    run = current()
    assert run is not None
    record = run.records[0]
    assert record.copied_bytes == 400_000 + 40
    assert record.copied_blocking_bytes == 40
    assert record.copied_pageable_bytes == 400_000


def test_a_move_inside_an_explicit_copy_counts_once() -> None:
    for _ in probe.watch(range(3)):
        with probe.copy():
            time.sleep(0.003)
            torch.ones(3).to("meta")
    found = steps()
    assert np.all(found.copy_ns >= 3 * MS)
    assert np.all(found.copy_ns <= found.step_ns)
    assert np.all(found.compute_ns < 3 * MS)


def test_a_move_inside_an_explicit_copy_counts_its_bytes() -> None:
    for index, _ in enumerate(probe.watch(range(2))):
        if index == 1:
            with probe.copy():
                torch.ones(10).to("meta")
    run = current()
    assert run is not None
    assert (run.records[0].copies, run.records[0].copied_bytes) == (1, 40)


def test_hooks_are_there_only_while_a_loop_is_open() -> None:
    names = ("to", "cuda", "copy_")
    before = dict(torch.Tensor.__dict__)
    loop = iter(probe.watch(range(3)))
    assert all(name in torch.Tensor.__dict__ for name in names)
    other = iter(probe.watch(range(3), name="val"))
    next(loop)
    del loop
    assert all(name in torch.Tensor.__dict__ for name in names)
    del other
    assert dict(torch.Tensor.__dict__) == before


def test_what_somebody_else_has_put_there_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def theirs(self: torch.Tensor, *args: Any, **kwargs: Any) -> str:
        return "theirs"

    monkeypatch.setattr(torch.Tensor, "to", theirs)
    for _ in probe.watch(range(1)):
        assert torch.ones(1).to("cpu") == "theirs"
    assert torch.Tensor.__dict__["to"] is theirs


def test_a_compiled_step_stays_one_graph() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float64).to("cpu").sum() + x.mean()

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    expected = step(torch.arange(6.0))
    found = [compiled(torch.arange(6.0)) for _ in probe.watch(range(3))]
    assert all(torch.equal(value, expected) for value in found)
    assert torch.equal(compiled(torch.arange(6.0)), expected)


class Sub(torch.Tensor):
    """A tensor subclass that sees every torch function."""

    calls = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})


def test_tensors_behave_under_the_hooks_as_without() -> None:
    def exercise() -> list[Any]:
        tensor = torch.arange(4.0, requires_grad=True)
        module = nn.Linear(4, 2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = module(tensor.to("cpu"))
        loss = out.float().to(torch.float64).sum()
        loss.backward()
        checkpointed = torch.utils.checkpoint.checkpoint(
            lambda x: x.to(torch.float64) * 2, tensor, use_reentrant=False
        )
        return [
            out.dtype,
            tensor.grad is not None,
            checkpointed.dtype,
            torch.equal(copy.deepcopy(tensor.detach()), tensor),
            type(torch.ones(2).as_subclass(Sub).to(torch.float64)),
            torch.ones(2).as_subclass(Sub).to("cpu").sum().item(),
            tensor.to("cpu") is tensor,
        ]

    plain = exercise()
    watched = [exercise() for _ in probe.watch(range(2))]
    assert watched == [plain, plain]


def test_errors_of_a_move_arrive_unchanged() -> None:
    for _ in probe.watch(range(1)):
        with pytest.raises(RuntimeError, match="Expected one of cpu"):
            torch.ones(1).to("nowhere")
        with pytest.raises(TypeError):
            torch.ones(1).copy_()  # type: ignore[call-arg]
