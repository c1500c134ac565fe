"""Samples of the machine and of GPUs; a scripted stand-in plays NVML, which this test needs not."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from probe.record import hardware
from probe.record.cores import usable_cores
from probe.record.gpus import Nvml, open_nvml
from probe.record.hardware import Host, Sampler


class ScriptedGpus:
    """Plays NVML behind the `Gpus` interface: two GPUs, the second without utilisation."""

    driver: str | None = "580.1"

    def sample(self) -> list[tuple[Any, ...]]:
        return [
            (0, 0.5, 10, 100, 300.0, 1980, None, None, 60, 0.25),
            (1, None, 20, 100, None, None, None, None, None, None),
        ]


def test_samples_come_at_the_stated_rate_and_carry_the_columns() -> None:
    sampler = Sampler(time.perf_counter_ns(), ScriptedGpus)
    sampler.start()
    time.sleep(1.5)
    sampler.stop()
    gpu, host = sampler.gpu_rows, sampler.host_rows
    assert 2 <= len(host) <= 7  # 1.5 s at 5 Hz; a busy machine is late
    assert len(gpu) == 2 * len(host)
    assert gpu[1][0] == 1
    assert gpu[1][2] is None
    assert all(0 <= row[1] <= 1 for row in host if row[1] is not None)
    assert host[-1][5] > 0
    assert sampler.driver == "580.1"


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
    gpu, host = sampler.gpu_rows, sampler.host_rows
    assert len(gpu) == 2
    assert len(host) >= 2


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


def test_sm_activity_is_read_between_two_samples_where_the_gpu_has_it() -> None:
    freed = []

    def metrics(asked: Any) -> Any:
        assert asked.metrics[0].metricId == 2
        spent = asked.sample2 - asked.sample1
        return SimpleNamespace(metrics=[SimpleNamespace(nvmlReturn=0, value=25.0 * spent)])

    samples = iter([1, 2, 4])
    nvml = SimpleNamespace(
        NVML_GPM_METRICS_GET_VERSION=1,
        NVML_GPM_METRIC_SM_UTIL=2,
        c_nvmlGpmMetricsGet_t=lambda: SimpleNamespace(metrics=[SimpleNamespace()]),
        nvmlSystemGetDriverVersion=lambda: "580.1",
        nvmlGpmQueryDeviceSupport=lambda handle: SimpleNamespace(isSupportedDevice=1),
        nvmlGpmSampleAlloc=lambda: None,
        nvmlGpmSampleGet=lambda handle, sample: next(samples),
        nvmlGpmSampleFree=freed.append,
        nvmlGpmMetricsGet=metrics,
    )
    source = Nvml(nvml)
    assert [source._sm_activity(0, "handle") for _ in range(3)] == [None, 0.25, 0.5]
    assert freed == [1, 2]


@pytest.mark.parametrize(
    ("files", "membership", "cores"),
    [
        ({"job/cpu.max": "150000 100000"}, "0::/job", 1.5),
        ({"job/cpu.max": "max 100000", "cpu.max": "50000 100000"}, "0::/job", 0.5),
        ({"job/cpu.max": "max 100000"}, "0::/job", None),
        (
            {"cpu/a/cpu.cfs_quota_us": "70000", "cpu/a/cpu.cfs_period_us": "100000"},
            "3:memory:/x\n1:cpu:/a",
            0.7,
        ),
        ({}, "nonsense", None),
    ],
)
def test_the_quota_of_a_container_counts(
    files: dict[str, str],
    membership: str,
    cores: float | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in files.items():
        (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / name).write_text(text)
    (tmp_path / "membership").write_text(membership)
    monkeypatch.setattr("probe.record.cores._CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr("probe.record.cores._MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr("probe.record.cores.allowed_cores", lambda: [0, 1])
    assert usable_cores() == (2.0 if cores is None else cores)


def test_processes_that_come_and_go_between_two_samples_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hardware, "_TREE_PERIOD_NS", 0)
    host = Host()
    spent = time.perf_counter()
    work = "import time\nwhile time.process_time() < 0.3: pass"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", work], check=True)
    tree = host.sample()[1]
    wall = time.perf_counter() - spent
    assert tree is not None
    assert tree >= 0.55 / (wall * 1.1 * usable_cores())
