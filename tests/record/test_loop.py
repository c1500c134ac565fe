"""The accounting of steps against a model that knows every moment of a random program.

A virtual clock moves only when the program says so, so the comparison is exact. The model keeps
the list of moments with what was open at each, and asks of every moment which phase of which step
it belongs to; it shares no arithmetic with the code under test.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import probe
from probe.run import Run

durations = st.integers(0, 50)


@dataclass(frozen=True)
class Work:
    ns: int


@dataclass(frozen=True)
class Copy:
    ns: int


@dataclass(frozen=True)
class Exclude:
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Loop:
    waits: tuple[int, ...]
    last_wait: int
    copy_in_next: int
    stop_after: int | None
    body: tuple[Any, ...]


def programs() -> st.SearchStrategy[tuple[Any, ...]]:
    simple = st.builds(Work, durations) | st.builds(Copy, durations)
    statement = st.recursive(
        simple,
        lambda inner: (
            st.builds(Exclude, st.lists(inner, max_size=3).map(tuple))
            | st.builds(
                Loop,
                st.lists(durations, max_size=4).map(tuple),
                durations,
                durations,
                st.none() | st.integers(0, 3),
                st.lists(inner, max_size=3).map(tuple),
            )
        ),
        max_leaves=12,
    )
    return st.lists(statement, min_size=1, max_size=5).map(tuple)


@dataclass
class World:
    """Runs a program with the real probe and, moment by moment, with the model."""

    time: int = 1_000
    stack: list[str] = field(default_factory=list)
    moments: list[tuple[int, int, str, tuple[str, ...]]] = field(default_factory=list)
    steps: dict[str, list[list[int]]] = field(default_factory=dict)
    names: Iterator[int] = field(default_factory=itertools.count)

    def now(self) -> int:
        return self.time

    def pass_time(self, ns: int, kind: str) -> None:
        self.moments.append((self.time, self.time + ns, kind, tuple(self.stack)))
        self.time += ns

    def run(self, body: tuple[Any, ...]) -> None:
        for statement in body:
            match statement:
                case Work(ns):
                    self.pass_time(ns, "work")
                case Copy(ns):
                    with probe.copy():
                        self.pass_time(ns, "copy")
                case Exclude(inner):
                    self.stack.append("exclude")
                    with probe.exclude():
                        self.run(inner)
                    self.stack.pop()
                case Loop():
                    self.loop(statement)

    def loop(self, statement: Loop) -> None:
        name = f"loop{next(self.names)}"
        self.stack.append(name)
        steps = self.steps[name] = []

        def batches() -> Iterator[int]:
            for index, wait in enumerate(statement.waits):
                self.pass_time(wait, f"wait {name}")
                with probe.copy():
                    self.pass_time(statement.copy_in_next, "copy")
                yield index
            self.pass_time(statement.last_wait, f"wait {name}")

        asked = self.time
        for count, _ in enumerate(probe.watch(batches(), name=name)):
            if steps:
                steps[-1][1] = asked
            steps.append([asked, -1])
            self.run(statement.body)
            if statement.stop_after == count:
                break
            asked = self.time
        if steps:
            steps[-1][1] = self.time
        self.stack.pop()

    def expected(self, name: str) -> list[tuple[int, int, int, int]]:
        return [self._phases(name, start, end) for start, end in self.steps[name]]

    def _phases(self, name: str, start: int, end: int) -> tuple[int, int, int, int]:
        found = dict.fromkeys(("wait", "copy", "work", "other"), 0)
        for begin, stop, kind, stack in self.moments:
            if not (start <= begin and stop <= end) or name not in stack:
                continue
            if stack[-1] != name:
                found["other"] += stop - begin
            else:
                found[kind.split()[0]] += stop - begin
        return found["wait"], found["copy"], found["work"], found["other"]


def use_clock(patch: pytest.MonkeyPatch, world: World) -> None:
    # `probe.watch` and `probe.run` name functions; the modules of that name are found here.
    for name in (
        "probe.record.loop",
        "probe.record.blocks",
        "probe.record.thread",
        "probe.watch",
        "probe.run",
    ):
        patch.setattr(sys.modules[name], "now", world.now)


def use_run(patch: pytest.MonkeyPatch) -> Run:
    """Make a run current that has no threads, so that its rows stay in the buffer."""
    run = Run("virtual")
    patch.setattr(sys.modules["probe.run"], "_current", run)
    return run


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    use_clock(monkeypatch, world)
    return world


@settings(max_examples=400, deadline=None)
@given(program=programs())
def test_phases_of_every_step_are_those_of_the_model(program: tuple[Any, ...]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = World()
        use_clock(patch, world)
        run = use_run(patch)
        world.run(program)
        run.ended = True
        recorded = {
            record.name: [(r[4], r[5], r[6], r[7]) for r in record.rows] for record in run.records
        }
        for name, steps in world.steps.items():
            assert recorded.get(name, []) == world.expected(name)
            if not steps:
                assert name not in recorded


def rows_of(run: Run, name: str) -> list[dict[str, int]]:
    columns = ("step", "epoch", "first", "start", "wait", "copy", "compute", "other")
    (record,) = (record for record in run.records if record.name == name)
    return [dict(zip(columns, row, strict=False)) for row in record.rows]


@pytest.fixture
def run(virtual: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    run = use_run(monkeypatch)
    yield run
    run.ended = True


def ticking(world: World, wait: int, count: int) -> Iterator[int]:
    for index in range(count):
        world.time += wait
        yield index


def test_two_loaders_zipped_count_only_each_others_wait(virtual: World, run: Run) -> None:
    a = probe.watch(ticking(virtual, 5, 3), name="a")
    b = probe.watch(ticking(virtual, 7, 3), name="b")
    for _ in zip(a, b, strict=True):
        virtual.time += 100
    inner = [(r["wait"], r["compute"], r["other"]) for r in rows_of(run, "a")[:-1]]
    assert inner == [(5, 100, 7)] * 2
    # zip() asks for iter(b) before it asks a for its first batch.
    inner = [(r["wait"], r["compute"], r["other"]) for r in rows_of(run, "b")[:-1]]
    assert inner == [(7, 100, 10), (7, 100, 5)]


def test_a_second_loader_read_twice_a_step_does_not_swallow_the_compute(
    virtual: World, run: Run
) -> None:
    noise = iter(probe.watch(ticking(virtual, 3, 20), name="noise"))
    for _ in probe.watch(ticking(virtual, 5, 4), name="real"):
        next(noise)
        virtual.time += 40
        next(noise)
        virtual.time += 60
    assert [(r["compute"], r["other"]) for r in rows_of(run, "real")] == [(100, 6)] * 4


def test_time_between_iter_and_the_first_ask_is_other(virtual: World, run: Run) -> None:
    it = iter(probe.watch([1, 2, 3]))
    virtual.time += 1000
    next(it)
    virtual.time += 10
    next(it)
    first = rows_of(run, "train")[0]
    assert (first["other"], first["compute"], first["first"]) == (1000, 10, 1)


def test_a_failed_next_is_wait_of_the_step_it_interrupts(virtual: World, run: Run) -> None:
    class Flaky:
        calls = 0

        def __iter__(self) -> Flaky:
            return self

        def __next__(self) -> int:
            self.calls += 1
            virtual.time += 5
            if self.calls == 2:
                raise OSError("disk")
            return self.calls

    it = iter(probe.watch(Flaky()))
    next(it)
    virtual.time += 10
    with pytest.raises(OSError, match="disk"):
        next(it)
    virtual.time += 1
    next(it)
    next(it)
    assert [(r["wait"], r["compute"]) for r in rows_of(run, "train")] == [(10, 11), (5, 0)]


def test_a_validation_loop_in_an_excluded_block_counts_once(virtual: World, run: Run) -> None:
    for index in probe.watch(ticking(virtual, 5, 2), name="train"):
        virtual.time += 10
        if index == 0:
            with probe.exclude("validation"):
                virtual.time += 3
                for _ in probe.watch(ticking(virtual, 2, 3), name="val"):
                    virtual.time += 20
    assert [(r["compute"], r["other"]) for r in rows_of(run, "train")] == [(10, 69), (10, 0)]
    assert [(r["wait"], r["compute"]) for r in rows_of(run, "val")] == [(2, 20)] * 3
    ((_, kind, label, duration),) = run.events
    assert (kind, label, duration) == ("exclude", "validation", 69)


def test_an_object_with_next_ends_its_epoch_at_none(virtual: World, run: Run) -> None:
    class Prefetcher:
        def __init__(self) -> None:
            self.left = 3

        def next(self) -> tuple[int | None, int | None]:
            virtual.time += 5
            self.left -= 1
            return (self.left, self.left) if self.left >= 0 else (None, None)

    prefetcher = probe.watch(Prefetcher())
    batch = prefetcher.next()
    while batch[0] is not None:
        virtual.time += 10
        batch = prefetcher.next()
    rows = rows_of(run, "train")
    assert [(r["wait"], r["compute"]) for r in rows] == [(5, 10), (5, 10), (10, 10)]
    assert not hasattr(prefetcher, "__len__")


def test_a_function_is_timed_at_each_call(virtual: World, run: Run) -> None:
    def get_batch(split: str) -> str:
        virtual.time += 5
        return split

    watched = probe.watch(get_batch)
    for _ in range(3):
        assert watched("train") == "train"
        virtual.time += 10
    assert [(r["wait"], r["compute"]) for r in rows_of(run, "train")] == [(5, 10)] * 2


def test_a_watched_loader_inside_a_watched_one_is_its_producer(virtual: World, run: Run) -> None:
    inner = probe.watch(ticking(virtual, 5, 3), name="producer")
    for _ in probe.watch((x for x in inner), name="train"):
        virtual.time += 10
    assert {record.name: record.role for record in run.records} == {
        "producer": "producer",
        "train": "consumer",
    }
    assert [r["wait"] for r in rows_of(run, "train")] == [5, 5, 5]


@pytest.mark.parametrize("opened", ["in the first next", "in iter()", "before"])
def test_a_producer_on_the_same_thread_has_its_own_series(
    virtual: World, run: Run, opened: str
) -> None:
    inner = probe.watch(ticking(virtual, 5, 3), name="producer")
    early = iter(inner) if opened == "before" else None

    def augmented(batches: Iterator[int] | None) -> Iterator[int]:
        for batch in batches or iter(inner):
            virtual.time += 1
            yield batch

    class Augmented:
        def __iter__(self) -> Iterator[int]:
            return augmented(early or (iter(inner) if opened == "in iter()" else None))

    for _ in probe.watch(Augmented(), name="train"):
        virtual.time += 10
    producer, train = rows_of(run, "producer"), rows_of(run, "train")
    assert [(r["wait"], r["compute"], r["other"]) for r in producer] == [(5, 11, 0)] * 3
    assert [(r["wait"], r["compute"], r["other"]) for r in train] == [(6, 10, 0)] * 3


def test_two_loops_over_one_watched_object_keep_two_records(virtual: World, run: Run) -> None:
    watched = probe.watch([1, 2, 3])
    for _ in zip(watched, watched, strict=True):
        virtual.time += 10
    assert sorted(record.name for record in run.records) == ["train", "train (2)"]
    assert [len(record.rows) for record in run.records] == [3, 3]


def test_a_loader_made_anew_each_epoch_continues_its_record(virtual: World, run: Run) -> None:
    for _ in range(3):
        for _ in probe.watch(ticking(virtual, 1, 4)):
            virtual.time += 1
    rows = rows_of(run, "train")
    assert [r["step"] for r in rows] == list(range(12))
    assert [r["epoch"] for r in rows] == [0] * 4 + [1] * 4 + [2] * 4
    assert [r["first"] for r in rows] == [1, 0, 0, 0] * 3


def test_a_copy_around_next_counts_nothing_twice(virtual: World, run: Run) -> None:
    iterator = iter(probe.watch(ticking(virtual, 5, 6)))
    for _ in range(6):
        with probe.copy():
            next(iterator)
            virtual.time += 3
        virtual.time += 10
    for row in rows_of(run, "train"):
        assert min(row["wait"], row["copy"], row["compute"], row["other"]) >= 0
        assert row["wait"] == 5
        assert row["copy"] == 3


def test_a_block_left_inside_next_claims_no_more_than_there_is(virtual: World, run: Run) -> None:
    def odd() -> Iterator[int]:
        for index in range(6):
            virtual.time += 5
            with probe.copy():
                yield index

    for _ in probe.watch(odd()):
        virtual.time += 10
    for row in rows_of(run, "train"):
        assert min(row["wait"], row["copy"], row["compute"], row["other"]) >= 0


def test_an_iterator_that_moves_to_another_thread_is_followed(virtual: World, run: Run) -> None:
    iterator = iter(probe.watch(ticking(virtual, 5, 6)))
    next(iterator)
    next(iterator)

    def rest() -> None:
        for _ in iterator:
            with probe.exclude():
                virtual.time += 7
            virtual.time += 10

    thread = threading.Thread(target=rest)
    thread.start()
    thread.join()
    rows = rows_of(run, "train")
    assert [(r["wait"], r["compute"], r["other"]) for r in rows[2:]] == [(5, 10, 7)] * 4
