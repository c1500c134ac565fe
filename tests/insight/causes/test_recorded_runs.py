"""Real DataLoader workers, recorded, read as what they are; and advice that is followed helps."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import probe
from probe.report import RunReport, report
from probe.store.queries import Store

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Slow(Dataset[torch.Tensor]):
    """Each sample takes a while: asleep, as for a file, or computing."""

    def __init__(self, n: int, asleep_ms: float = 0.0, computing_ms: float = 0.0) -> None:
        self.n, self.asleep, self.computing = n, asleep_ms / 1e3, computing_ms / 1e3

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.asleep)
        began = time.thread_time()
        while time.thread_time() - began < self.computing:
            pass
        return torch.zeros(4)


def record(name: str, dataset: Slow, loop_ms: float, **settings: Any) -> RunReport:
    loader = DataLoader(dataset, batch_size=2, **settings)
    with probe.run(name, db="real.db"):
        for _ in probe.watch(loader):
            time.sleep(loop_ms / 1e3)
    with Store(Path("real.db")) as store:
        return report(store, store.run(name))


def test_eight_workers_that_deliver_together_are_a_burst() -> None:
    found = record("pool", Slow(2 * 128, asleep_ms=60), loop_ms=2, num_workers=8)
    cause = found.verdict.causes[0]
    assert cause.title == "burst, every 8 steps"
    assert "Burst, every 8 steps: 8 workers deliver together" in found.verdict.sentence
    assert found.queue is not None
    assert found.queue.readiness is not None


def test_a_worker_that_sleeps_waits_for_storage_and_more_of_them_help() -> None:
    slow = Slow(2 * 100, asleep_ms=15)
    before = record("before", slow, loop_ms=8, num_workers=1)
    cause = before.verdict.causes[0]
    assert cause.cause == "storage"
    [setting] = cause.settings
    workers = re.fullmatch(r"num_workers=(\d+)", setting)
    assert workers is not None
    after = record("after", slow, loop_ms=8, num_workers=int(workers[1]))
    assert before.consumer is not None
    assert after.consumer is not None
    assert before.consumer.samples_per_s is not None
    assert after.consumer.samples_per_s is not None
    gain = after.consumer.samples_per_s / before.consumer.samples_per_s
    low, high = cause.gain
    assert low * 0.8 <= gain <= high * 1.1


def test_without_workers_computing_is_the_main_thread() -> None:
    found = record("alone", Slow(2 * 100, computing_ms=4), loop_ms=4, num_workers=0)
    assert found.verdict.causes[0].cause == "main-thread"
    assert found.verdict.causes[0].confidence != "low"


def test_workers_started_anew_in_every_short_epoch_are_the_epoch_start() -> None:
    loader = DataLoader(Slow(2 * 15, asleep_ms=1), batch_size=2, num_workers=2)
    with probe.run("short epochs", db="real.db"):
        for _ in range(5):
            for _ in probe.watch(loader):
                time.sleep(0.004)
    with Store(Path("real.db")) as store:
        cause = report(store, store.run("short epochs")).verdict.causes[0]
    assert cause.cause == "epoch-start"
    assert cause.settings == ("persistent_workers=True",)
