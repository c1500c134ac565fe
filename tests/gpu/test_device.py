"""Runs the device checks where there is a device, and tests their arithmetic everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from device_report import Report
from device_trace import Trace, windows_idle

SCRIPT = Path(__file__).with_name("check_device.py")


@pytest.mark.gpu
@pytest.mark.timeout(600)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
def test_the_device_checks_hold(tmp_path: Path) -> None:
    environment = {**os.environ, "OUT": str(tmp_path)}
    found = subprocess.run([sys.executable, str(SCRIPT)], env=environment, check=False)
    report = json.loads((tmp_path / "device.json").read_text())
    assert [check["name"] for check in report["checks"] if not check["ok"]] == []
    assert found.returncode == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_the_script_says_so() -> None:
    found = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert found.stderr.strip() == "This check needs a CUDA device, and torch sees none."


def _event(name: str, cat: str, ts: float, dur: float, stream: int | None = None) -> dict:
    return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "args": {"stream": stream}}


def test_idle_time_is_what_the_compute_stream_did_not_cover() -> None:
    events = [
        _event("next", "user_annotation", 100, 50),
        _event("next", "gpu_user_annotation", 100, 50, 7),
        _event("next", "user_annotation", 300, 100),
        _event("spin_kernel(long)", "kernel", 90, 20, 7),
        _event("spin_kernel(long)", "kernel", 150, 170, 7),
        _event("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 310, 20, 7),
        _event("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 340, 40, 13),
        _event("cudaEventRecord", "cuda_runtime", 50, 1),
        _event("cudaEventRecord", "cuda_runtime", 120, 1),
    ]
    trace = Trace({"traceEvents": events}, steps=2)
    assert windows_idle(trace) == [40, 70]
    assert (trace.spin_us, trace.copy_us) == (95, 30)
    assert trace.calls == {"cudaEventRecord": 1}


def test_a_check_that_raises_fails_and_the_others_go_on(tmp_path: Path) -> None:
    report = Report("a device", "2.13")
    assert not report.ok
    report.add("first", True, {"us": 1.0})
    assert report.ok

    def broken(report: Report) -> None:
        raise RuntimeError("no such kernel")

    report.attempt(broken)
    report.write(tmp_path, 1.0)
    found = json.loads((tmp_path / "device.json").read_text())
    assert not found["ok"]
    assert "no such kernel" in found["checks"][1]["error"]
    assert "| broken raised | WRONG |" in (tmp_path / "device.md").read_text()
