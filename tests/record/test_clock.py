"""The device clock's rules on a scripted device, whose every moment is known.

The scripted device stands in for CUDA behind the `DeviceClock` interface: streams run their work in
order, a host that launches work does not wait for it, an event is reached when its stream gets
there. Times come back as float32 milliseconds, as CUDA gives them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_runs import finish_runs
from test_loop import World, use_clock, use_run

import probe
from probe.record.clock import Mark, StepMarks, device_times
from probe.run import Run
from probe.store.queries import Store

US = 1_000


@dataclass
class Device:
    """Streams of a device on the host's virtual time; `busy[s]` is when stream s falls idle."""

    world: World
    busy: dict[int, int] = field(default_factory=dict)
    current: int = 0
    index: int = 0
    capturing: bool = False
    pool: list[Any] = field(default_factory=list)

    def launch(self, ns: int) -> None:
        self.busy[self.current] = max(self.world.time, self.busy.get(self.current, 0)) + ns

    def wait_stream(self, other: int) -> None:
        mine = self.busy.get(self.current, 0)
        self.busy[self.current] = max(mine, self.busy.get(other, 0))

    def synchronize(self) -> None:
        self.world.time = max(self.world.time, *self.busy.values())

    def mark(self) -> Mark | None:
        if self.capturing:
            return None
        reached = max(self.world.time, self.busy.get(self.current, 0))
        return Mark(self.index, self.current, reached, self.pool)

    def done(self, mark: Mark) -> bool:
        return bool(self.world.time >= mark.event)

    def elapsed_ms(self, since: Mark, until: Mark) -> float:
        return float(np.float32((until.event - since.event) / 1e6))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    use_clock(monkeypatch, world)
    return world


@pytest.fixture
def run(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    run = use_run(monkeypatch)
    yield run
    run.ended = True


@pytest.fixture
def device(world: World) -> Device:
    return Device(world)


def watched(batches: Iterator[int], run: Run, device: Device) -> Iterator[int]:
    """Watch, with the device clock found after the first batch, as the writer finds it."""
    for batch in probe.watch(batches):
        for record in run.records:
            for loop in record.loops:
                if loop.clock is None:
                    loop.use_clock(device)
        yield batch


def times(run: Run) -> list[tuple[int, int, int, int] | None]:
    """Device times of the steps that have any; the first was before the clock was found."""
    (record,) = run.records
    return [marks.times(None) for _, marks in record.device_rows]


def loading(world: World, wait: int, count: int) -> Iterator[int]:
    for index in range(count):
        world.time += wait
        yield index


def test_wait_while_the_device_is_idle_is_exposed(world: World, run: Run, device: Device) -> None:
    for _ in watched(loading(world, 300 * US, 4), run, device):
        device.launch(100 * US)
        device.synchronize()
    assert times(run)[1:-1] == [(300 * US, 0, 0, 100 * US)]


def test_wait_while_the_device_is_busy_is_hidden(world: World, run: Run, device: Device) -> None:
    for _ in watched(loading(world, 300 * US, 4), run, device):
        device.launch(1000 * US)  # the host does not wait for it
    rows = [row for row, _ in run.records[0].device_rows]
    assert rows[1][4] == 300 * US  # the host waited
    assert times(run)[1:-1] == [(0, 0, 0, 1000 * US)]  # the device did not


def test_wait_longer_than_the_work_ahead_is_exposed_in_part(
    world: World, run: Run, device: Device
) -> None:
    for _ in watched(loading(world, 300 * US, 5), run, device):
        device.launch(200 * US)
    assert times(run)[2:-1] == [(100 * US, 0, 0, 200 * US)]


def test_a_copy_on_the_compute_stream_is_exposed(world: World, run: Run, device: Device) -> None:
    for _ in watched(loading(world, 50 * US, 4), run, device):
        with probe.copy():
            device.launch(30 * US)
        device.launch(100 * US)
        device.synchronize()
    assert times(run)[1:-1] == [(50 * US, 30 * US, 30 * US, 100 * US)]


def test_a_copy_inside_next_is_copy_and_not_wait(world: World, run: Run, device: Device) -> None:
    def prefetcher() -> Iterator[int]:
        for index in range(4):
            world.time += 50 * US
            with probe.copy():
                device.launch(30 * US)
                device.synchronize()  # blocking, from pageable memory
            yield index

    for _ in watched(prefetcher(), run, device):
        device.launch(100 * US)
        device.synchronize()
    assert times(run)[1:-1] == [(50 * US, 30 * US, 30 * US, 100 * US)]
    row = run.records[0].device_rows[1][0]
    assert (row[4], row[5]) == (50 * US, 30 * US)


def side_stream(world: World, device: Device, copy_ns: int, count: int) -> Iterator[int]:
    """Copies batch i+1 on stream 1 while batch i computes; waits for it before it is used."""

    def copy() -> None:
        device.current = 1
        with probe.copy():
            device.launch(copy_ns)
        device.current = 0

    copy()
    for index in range(count):
        device.wait_stream(1)
        if index + 1 < count:
            copy()
        yield index


def test_a_side_stream_copy_shorter_than_the_compute_is_hidden(
    world: World, run: Run, device: Device
) -> None:
    for _ in watched(side_stream(world, device, 80 * US, 6), run, device):
        device.launch(100 * US)
    for found in times(run)[1:-2]:
        assert found == (0, 80 * US, 0, 100 * US)


def test_a_side_stream_copy_longer_than_the_compute_is_exposed_by_the_difference(
    world: World, run: Run, device: Device
) -> None:
    for _ in watched(side_stream(world, device, 250 * US, 6), run, device):
        device.launch(100 * US)
    for found in times(run)[2:-2]:
        assert found == (0, 250 * US, 150 * US, 100 * US)


def test_nothing_is_recorded_during_the_capture_of_a_graph(
    world: World, run: Run, device: Device
) -> None:
    for index in watched(loading(world, 50 * US, 6), run, device):
        device.capturing = index == 3
        device.launch(100 * US)
        device.synchronize()
    assert [found is None for found in times(run)] == [False, False, True, True, False]


def test_a_step_that_crosses_devices_has_no_device_times(
    world: World, run: Run, device: Device
) -> None:
    for index in watched(loading(world, 50 * US, 5), run, device):
        device.index = index % 2
        device.launch(100 * US)
        device.synchronize()
    assert set(times(run)) == {None}


def test_a_step_is_pending_until_the_device_has_reached_its_end(
    world: World, run: Run, device: Device
) -> None:
    for _ in watched(loading(world, 10 * US, 4), run, device):
        device.launch(1_000 * US)
    marks = run.records[0].device_rows[1][1]
    assert marks.pending()
    device.synchronize()
    assert not marks.pending()


def test_device_times_stay_exact_hours_into_a_run(world: World, run: Run, device: Device) -> None:
    world.time += 5 * 3600 * 10**9
    for _ in watched(loading(world, 300 * US, 4), run, device):
        device.launch(100 * US)
        device.synchronize()
    (found,) = times(run)[1:-1]
    assert found == (300 * US, 0, 0, 100 * US)


def test_an_anchor_a_second_away_costs_less_than_a_microsecond(
    world: World, run: Run, device: Device
) -> None:
    world.time += 3600 * 10**9
    anchor = device.mark()
    world.time += 10**9
    for _ in watched(loading(world, 300 * US, 4), run, device):
        device.launch(100 * US)
        device.synchronize()
    marks = run.records[0].device_rows[1][1]
    found = marks.times(anchor)
    assert found is not None
    np.testing.assert_allclose(found, (300 * US, 0, 0, 100 * US), atol=200)


def test_events_go_back_to_their_pool(world: World, run: Run, device: Device) -> None:
    for _ in watched(loading(world, 10 * US, 50), run, device):
        with probe.copy():
            device.launch(1 * US)
        run.records[0].device_rows.clear()
    assert len(device.pool) > 150


span = st.tuples(st.integers(0, 100), st.integers(0, 50), st.booleans()).map(
    lambda s: (s[0], s[0] + s[1], s[2])
)


@given(
    gaps=st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60)),
    copies=st.lists(span, max_size=5),
    earlier=st.lists(span, max_size=3),
)
def test_the_parts_of_a_device_step_add_up_and_are_never_negative(
    gaps: tuple[int, int, int],
    copies: list[tuple[int, int, bool]],
    earlier: list[tuple[int, int, bool]],
) -> None:
    asked = gaps[0]
    got = asked + gaps[1]
    following = got + gaps[2]
    wait, duration, exposed, compute = device_times(asked, got, following, copies, earlier)
    assert wait + exposed + compute == following - asked
    assert min(wait, exposed, compute, duration) >= 0
    # Moment by moment, without the code's interval arithmetic.
    moments = range(asked, got)
    assert wait == sum(not any(b <= t < e for b, e, _ in (*copies, *earlier)) for t in moments)


def test_a_step_without_all_its_marks_is_unknown(device: Device) -> None:
    mark = device.mark()
    assert StepMarks(device, mark, None, following=mark).times(None) is None
    assert not StepMarks(device, mark, None, following=mark).pending()


class LiveDevice(Device):
    """The scripted device on the real clock, so that a whole recording can be made with it."""

    def __init__(self) -> None:
        super().__init__(World())

    def mark(self) -> Mark | None:
        self.world.time = time.perf_counter_ns()
        return super().mark()

    def done(self, mark: Mark) -> bool:
        self.world.time = time.perf_counter_ns()
        return super().done(mark)


def test_the_writer_reads_device_times_into_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    device = LiveDevice()
    monkeypatch.setattr("probe.record.writer.open_clock", lambda: device)
    monkeypatch.setattr("probe.record.writer.FLUSH_SECONDS", 0.05)

    def slow() -> Iterator[int]:
        for index in range(60):
            time.sleep(0.004)
            yield index

    for _ in probe.watch(slow()):
        device.world.time = time.perf_counter_ns()
        device.launch(10_000 * US)
        time.sleep(0.002)  # the host is done before the device: 4 ms of wait are hidden
    finish_runs()
    with Store("probe.db") as store:
        steps = store.steps(1, 1)
    assert len(steps) == 60
    timed = ~np.isnan(steps.exposed_wait_ns)
    assert timed.sum() >= 30  # the clock is found at the second flush
    assert np.median(steps.wait_ns[timed]) > 4_000 * US
    assert np.median(steps.exposed_wait_ns[timed]) < 100 * US
    assert np.median(steps.device_compute_ns[timed]) == pytest.approx(10_000 * US, rel=0.01)
    np.testing.assert_array_equal(steps.stall_ns[timed], steps.exposed_wait_ns[timed])


def test_steps_that_the_device_never_finishes_are_kept_without_its_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = LiveDevice()
    monkeypatch.setattr("probe.record.writer.open_clock", lambda: device)
    monkeypatch.setattr("probe.record.writer.FLUSH_SECONDS", 0.02)
    monkeypatch.setattr("probe.record.writer._DEVICE_SECONDS", 0.2)
    for index in probe.watch(range(40)):
        time.sleep(0.005)
        if index == 20:
            device.busy[0] = 2**62  # hangs
    finish_runs()
    with Store("probe.db") as store:
        steps = store.steps(1, 1)
    assert len(steps) == 40
    assert np.isnan(steps.exposed_wait_ns[21:]).all()
