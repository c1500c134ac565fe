"""Samples of the machine and of GPUs; a scripted stand-in plays NVML, which this test needs not."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from probe.record.hardware import Nvml, Sampler, open_nvml


class ScriptedGpus:
    """Plays NVML behind the `Gpus` interface: two GPUs, the second without utilisation."""

    driver: str | None = "580.1"

    def sample(self) -> list[tuple[Any, ...]]:
        return [
            (0, 0.5, 10, 100, 300.0, 1980, None, None, 60),
            (1, None, 20, 100, None, None, None, None, None),
        ]


def test_samples_come_at_the_stated_rate_and_carry_the_columns() -> None:
    sampler = Sampler(time.perf_counter_ns(), ScriptedGpus)
    sampler.start()
    time.sleep(1.5)
    sampler.stop()
    gpu, host = sampler.take()
    assert 4 <= len(host) <= 7
    assert len(gpu) == 2 * len(host)
    assert gpu[1][0] == 1
    assert gpu[1][2] is None
    assert all(0 <= row[1] <= 1 for row in host if row[1] is not None)
    assert host[-1][5] > 0
    assert sampler.driver == "580.1"
    assert sampler.take() == ([], [])


def test_a_source_that_fails_in_the_middle_costs_only_its_own_samples() -> None:
    class Failing(ScriptedGpus):
        calls = 0

        def sample(self) -> list[tuple[Any, ...]]:
            self.calls += 1
            if self.calls > 1:
                raise RuntimeError("GPU is lost")
            return super().sample()

    sampler = Sampler(time.perf_counter_ns(), Failing)
    sampler.start()
    time.sleep(1.0)
    sampler.stop()
    gpu, host = sampler.take()
    assert len(gpu) == 2
    assert len(host) >= 3


def test_without_nvml_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import pynvml

    def refuse() -> None:
        raise pynvml.NVMLError_LibraryNotFound

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    with caplog.at_level("INFO", logger="probe"):
        assert open_nvml() is None
    assert len(caplog.records) == 1
    assert "no NVIDIA GPU is sampled" in caplog.text


def test_a_value_that_nvml_refuses_is_missing_and_the_rest_stay() -> None:
    def refuse(*_: object) -> Any:
        raise RuntimeError("not supported")

    nvml = SimpleNamespace(
        NVML_PCIE_UTIL_RX_BYTES=1,
        NVML_PCIE_UTIL_TX_BYTES=0,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlSystemGetDriverVersion=lambda: "580.1",
        nvmlDeviceGetUtilizationRates=refuse,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=7, total=9),
        nvmlDeviceGetPowerUsage=lambda handle: 350_000,
        nvmlDeviceGetPcieThroughput=lambda handle, way: 2 + way,
        nvmlDeviceGetClockInfo=refuse,
        nvmlDeviceGetTemperature=lambda handle, kind: 55,
    )
    values = Nvml(nvml)._values("handle")
    assert values == (None, 7, 9, 350.0, None, 3 * 1024, 2 * 1024, 55)
