"""The GPUs as NVML sees them.

Utilisation is the share of time in which at least one kernel ran, refreshed by the driver every
1/6 to 1 s: coarse evidence beside the step times, never part of them.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Protocol

from probe.record.warnings import attempt, inform


class Gpus(Protocol):
    """Where GPU samples come from: NVML, or a scripted stand-in for tests."""

    driver: str | None

    def sample(self) -> list[tuple[Any, ...]]:
        """Return one tuple per GPU: the columns of `gpu_samples` after `run_id` and `time_ns`."""


class Nvml:
    """The GPUs on which this process has allocated memory through torch, sampled by NVML."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._handles: dict[int, tuple[int, Any]] = {}
        self._activity: dict[int, Any] = {}
        self.driver: str | None = attempt(lambda: str(nvml.nvmlSystemGetDriverVersion()))

    def sample(self) -> list[tuple[Any, ...]]:
        """Return one tuple per GPU in use; a value that NVML refuses is None."""
        self._find()
        return [
            (index, *self._values(handle), attempt(partial(self._sm_activity, index, handle)))
            for index, handle in self._handles.values()
        ]

    def _find(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return
        for device in range(torch.cuda.device_count()):
            if device in self._handles or not torch.cuda.memory_reserved(device):
                continue
            attempt(partial(self._open, torch, device))

    def _open(self, torch: Any, device: int) -> None:
        # CUDA and NVML count devices differently; the UUID is the same in both.
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
        handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        self._handles[device] = (self._nvml.nvmlDeviceGetIndex(handle), handle)

    def _values(self, handle: Any) -> tuple[Any, ...]:
        nvml = self._nvml
        rates = attempt(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        memory = attempt(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        power = attempt(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        received = attempt(
            lambda: nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_RX_BYTES)
        )
        sent = attempt(
            lambda: nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_TX_BYTES)
        )
        return (
            None if rates is None else rates.gpu / 100,
            None if memory is None else int(memory.used),
            None if memory is None else int(memory.total),
            None if power is None else power / 1000,
            attempt(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
            None if received is None else received * 1024,
            None if sent is None else sent * 1024,
            attempt(lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
        )

    def _sm_activity(self, index: int, handle: Any) -> float | None:
        """Return the SM activity since the last call, 0–1, from NVML's GPM (Hopper and later)."""
        nvml = self._nvml
        before = self._activity.get(index)
        if before is None and not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return None
        sample = nvml.nvmlGpmSampleGet(handle, nvml.nvmlGpmSampleAlloc())
        self._activity[index] = sample
        if before is None:
            return None
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = 1
        asked.sample1, asked.sample2 = before, sample
        asked.metrics[0].metricId = nvml.NVML_GPM_METRIC_SM_UTIL
        try:
            found = nvml.nvmlGpmMetricsGet(asked).metrics[0]
        finally:
            nvml.nvmlGpmSampleFree(before)
        return None if found.nvmlReturn else float(found.value) / 100


def open_nvml() -> Nvml | None:
    """Open NVML, or say in one line that there is none."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # no library, no driver, a driver of another version
        inform(f"no NVIDIA GPU is sampled: {error}")
        return None
    return Nvml(pynvml)
