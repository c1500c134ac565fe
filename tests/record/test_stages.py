"""Stages of making a batch, timed by name in real workers, and only when asked for."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from open_runs import finish_runs
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

import probe
from probe.insight.stages import costs
from probe.record.stages import read_lines
from probe.store.queries import Store


class Decode:
    def __call__(self, value: float) -> float:
        time.sleep(0.004)
        return value


def normalise(value: float) -> float:
    time.sleep(0.001)
    return value


class Compose:
    def __init__(self, transforms: list[Callable[[float], float]]) -> None:
        self.transforms = transforms

    def __call__(self, value: float) -> float:
        for transform in self.transforms:
            value = transform(value)
        return value


class Files(Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self.transform = Compose([Decode(), normalise])

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002)
        return torch.tensor(self.transform(float(index)))


def run(workers: int, method: str | None = None) -> DataLoader[torch.Tensor]:
    loader = DataLoader(
        Subset(Files(), range(12)),
        batch_size=2,
        num_workers=workers,
        multiprocessing_context=method,
    )
    values = [value for batch in probe.watch(loader) for value in batch.tolist()]
    assert values == [float(index) for index in range(12)]
    finish_runs()
    return loader


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_stage_is_timed_by_name(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setenv("PROBE_STAGES", "1")
    loader = run(2, method)
    with Store("probe.db") as store:
        stages = {stage.name: stage for stage in store.stages(1, 1)}
        found = costs(store.stages(1, 1), store.fetches(1, 1))
    assert {name: stage.calls for name, stage in stages.items()} == {
        "Subset": 6,
        "Files": 12,
        "Decode": 12,
        "normalise": 12,
        "collate": 6,
    }
    assert 4e6 < stages["Decode"].wall_ns / 12 < 8e6
    assert stages["Files"].wall_ns > stages["Decode"].wall_ns + stages["normalise"].wall_ns
    assert [cost.name for cost in found][:4] == ["Subset", "Files", "Decode", "normalise"]
    assert 0.4 < found[2].share < 0.7
    assert "Decode: " in found[2].sentence
    # The process that trains keeps its data set as it was.
    assert isinstance(loader.dataset, Subset)
    files = loader.dataset.dataset
    assert isinstance(files, Files)
    assert type(files.transform.transforms[0]) is Decode


def test_nothing_is_wrapped_unless_asked_for() -> None:
    run(1)
    with Store("probe.db") as store:
        assert store.stages(1, 1) == []
        assert costs([], store.fetches(1, 1)) == []


def test_a_line_in_two_pieces_is_read_once_it_is_whole() -> None:
    rest, found = read_lines(b"", b'[1, {"a": [1, 2]}]\n[2, {"b"')
    assert found == [(1, {"a": [1, 2]})]
    rest, found = read_lines(rest, b": [3, 4]}]\nnonsense\n")
    assert (rest, found) == (b"", [(2, {"b": [3, 4]})])


class Base(Dataset[torch.Tensor]):
    def __init__(self, transform: Callable[[float], float] | None = None) -> None:
        self.transform = transform
        self.datasets = 3  # a name of torch's own, used for something else

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int, scale: float = 1.0) -> torch.Tensor:
        value = float(index) * scale
        return torch.tensor(value if self.transform is None else self.transform(value))


class Derived(Base):
    def __getitem__(self, index: int, scale: float = 1.0) -> torch.Tensor:
        if self.transform is not None:
            assert isinstance(self.transform, Decode), "a transform must stay what it is"
        return super().__getitem__(index, scale=1.0)


def test_data_sets_of_every_shape_work_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_STAGES", "1")
    both = ConcatDataset([Derived(Decode()), Base(normalise)])
    loader = DataLoader(both, batch_size=1, num_workers=1)
    values = [float(batch) for batch in probe.watch(loader)]
    assert values == [float(index) for index in range(6)] * 2
    finish_runs()
    with Store("probe.db") as store:
        calls = {stage.name: stage.calls for stage in store.stages(1, 1)}
    assert calls["Decode"] == calls["normalise"] == 6
    assert calls["collate"] == 12
    assert calls["Base"] + calls["Derived"] == 18  # a Derived item calls that of Base
