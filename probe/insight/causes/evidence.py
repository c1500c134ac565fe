"""What the causes are told from: one run's steps, fetches and machine, boiled down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probe.insight.bootstrap import MIN_STEPS, ratio_interval
from probe.insight.causes.rhythm import Rhythm, find_rhythm
from probe.insight.machine import Load, load_of, mean, positive, usable_cores
from probe.insight.queue import Queue
from probe.insight.recorded import Recorded, recorded_from
from probe.insight.summary import after_warm_up, steady
from probe.store.queries import Fetches, HostSamples, Loader, Run, Steps

# A loader inside a thread is ahead of the loop when it spends more on a batch than the loop waits.
_AHEAD = 1.1
# Where fetches spend this part off the core, and CPU time beside fetches and loop is this part of
# that, helpers are at work. Passing a batch on takes a millisecond or two by itself.
_HELPERS = 0.2
_PASSING_NS = 2e6
# A loop that does nothing but wait has no upper bound, and a number without end helps nobody.
_MOST_GAIN = 1000.0


@dataclass(frozen=True, slots=True)
class Fetch:
    """What making a batch takes, as means in ns.

    `off_core` is the share of `wall_ns` that passed off a core, with a 95 % interval where there
    are enough fetches; None where CPU time was not measured.
    """

    count: int
    wall_ns: float
    off_core: float | None
    off_core_ci: tuple[float, float] | None

    @property
    def off_ns(self) -> float:
        """The time off a core, 0 where unknown."""
        return self.wall_ns * (self.off_core or 0.0)

    @property
    def on_ns(self) -> float:
        """The time on a core; all of it where unknown."""
        return self.wall_ns - self.off_ns


@dataclass(frozen=True, slots=True)
class Evidence:
    """One loop and what surrounds it; None where something was not recorded.

    Times are means in ns over the steps after warm-up. `step_ns` = `loop_ns` + `stall_ns`, and
    `stall_ns` = `epoch_start_ns` + `copy_ns` + `wait_ns`: what the first steps of epochs wait
    longer than others, what copies hold up, and the wait of an ordinary step. `host_copy_ns` is
    what copies cost the training thread, which is no part of the stall on the host clock alone.
    `load` says who uses the cores. `helpers_ns` is the CPU time of a step that neither a thread
    which fetches nor the loop explains, 0 where there is none or it is not known; `fetch` counts
    it as time on a core. `replay` is the run taken apart for simulation, where
    nothing but a DataLoader makes the batches.
    """

    loader: Loader
    device: str | None
    device_clock: bool
    cores: float | None
    torch_threads: int | None
    load: Load
    iowait: float | None
    steps: int
    step_ns: float
    loop_ns: float
    stall_ns: float
    epoch_starts: int
    epoch_start_ns: float
    copy_ns: float
    wait_ns: float
    host_copy_ns: float
    fetch: Fetch | None
    helpers_ns: float
    rhythm: Rhythm | None
    queue: Queue
    replay: Recorded | None

    @property
    def workers(self) -> int | None:
        """Worker processes of the loader; None where there is no DataLoader."""
        return self.loader.num_workers

    @property
    def busy(self) -> float | None:
        """The share of the cores in use."""
        return self.load.busy

    @property
    def own(self) -> float | None:
        """What this run and its workers use of the cores; where not sampled, what all use."""
        return self.load.busy if self.load.tree is None else self.load.tree

    @property
    def main_threads(self) -> int:
        """The threads that compute in the training process; beside an accelerator, one."""
        return self.torch_threads or 1 if self.device in (None, "cpu") else 1

    @property
    def ahead(self) -> bool:
        """Whether a thread of the training process makes batches ahead of the loop."""
        return (
            self.workers == 0
            and self.fetch is not None
            and self.fetch.wall_ns > _AHEAD * self.wait_ns
        )

    @property
    def may_slow_compute(self) -> bool:
        """Whether a thread of the training process may make batches while the loop computes."""
        wrapped = self.workers == 0 and self.fetch is None and len(self.loader.chain) > 1
        return self.ahead or wrapped

    @property
    def period_ns(self) -> float:
        """What a step takes when its batch is there: the consumer's own period."""
        return self.loop_ns + self.copy_ns

    @property
    def ordinary_ns(self) -> float:
        """What a step takes that does not begin an epoch."""
        return self.period_ns + self.wait_ns

    def gives(self, saved_ns: float) -> float:
        """Turn time saved in each step into a speed-up, of `_MOST_GAIN` at most."""
        left = self.step_ns - min(max(saved_ns, 0.0), self.stall_ns)
        return self.step_ns / max(left, self.step_ns / _MOST_GAIN)


def gather(
    run: Run, loader: Loader, steps: Steps, fetches: Fetches, host: HostSamples, queue: Queue
) -> Evidence | None:
    """Boil down what was recorded of one loop.

    Args:
        run: The run, for what its machine allows.
        loader: The loader that makes the batches: its settings are what can be changed.
        steps: The steps of the loop.
        fetches: The batches made for it; of length 0 when none was seen.
        host: Samples of the machine during the run.
        queue: What is known of the queue between them.

    Returns:
        The evidence, or None without steps that count.
    """
    counted, ordinary = after_warm_up(steps), steady(steps)
    n = int(counted.sum())
    if n < MIN_STEPS or not ordinary.any():
        return None
    copied = np.nan_to_num(steps.exposed_copy_ns)
    waited = steps.stall_ns - copied
    typical = float(waited[ordinary].mean())
    starts = counted & steps.epoch_start
    stall, copy = float(steps.stall_ns[counted].mean()), float(copied[counted].mean())
    at_starts = max(0.0, float((waited[starts] - typical).sum()) / n)
    begin = int(steps.start_ns[counted][0])
    end = int((steps.start_ns + steps.step_ns)[-1])
    during = (host.time_ns >= begin) & (host.time_ns <= end)
    load, cores = load_of(host, during), usable_cores(run)
    step = float(steps.step_ns[counted].mean())
    return _with_helpers(
        Evidence(
            loader=loader,
            device=run.device,
            device_clock=not np.isnan(steps.exposed_wait_ns[counted]).all(),
            cores=cores,
            torch_threads=_threads(run.config.get("torch_threads")),
            load=load,
            iowait=mean(host.iowait[during]),
            steps=n,
            step_ns=step,
            loop_ns=step - stall,
            stall_ns=stall,
            epoch_starts=int(starts.sum()),
            epoch_start_ns=at_starts,
            copy_ns=copy,
            wait_ns=max(0.0, stall - copy - at_starts),
            host_copy_ns=float(steps.copy_ns[counted].mean()),
            fetch=_fetch(fetches, begin),
            helpers_ns=0.0,
            rhythm=find_rhythm(steps, waited, loader.num_workers),
            queue=queue,
            replay=_replay(loader, steps, fetches, cores, load),
        )
    )


def _replay(
    loader: Loader, steps: Steps, fetches: Fetches, cores: float | None, load: Load
) -> Recorded | None:
    if len(loader.chain) != 1:
        return None
    found = recorded_from(loader, steps, fetches, cores, *load.in_cores(cores))
    return None if isinstance(found, str) else found


def _fetch(fetches: Fetches, begin: int) -> Fetch | None:
    if not len(fetches):
        return None
    # Warm-up does not count here either, unless nothing else was seen.
    later = fetches.start_ns >= begin
    counted = later if later.sum() >= MIN_STEPS else np.ones(len(fetches), np.bool_)
    in_time = np.argsort(fetches.start_ns[counted], kind="stable")
    wall = fetches.wall_ns[counted][in_time].astype(np.float64)
    cpu = fetches.cpu_ns[counted][in_time]
    off_core, interval = None, None
    measured = ~np.isnan(cpu)
    if measured.any() and wall[measured].sum() > 0:
        off = np.maximum(wall - cpu, 0)[measured]
        off_core = float(off.sum() / wall[measured].sum())
        interval = ratio_interval(off, wall[measured])
    return Fetch(len(wall), float(wall.mean()), off_core, interval)


def _with_helpers(found: Evidence) -> Evidence:
    """Count what threads and processes of the workers compute as time of the fetches on a core.

    A fetch is timed in the thread that makes the batch, which is off the core while others compute
    for it. What all of the run spends on cores tells: what is left of it without the fetches, a
    loop that computes all the time, and workers that start. It is shared out evenly, so the
    interval goes.
    """
    fetch, tree = found.fetch, found.load.tree
    if fetch is None or fetch.off_core is None or found.cores is None or tree is None:
        return found
    known_ns = (
        fetch.on_ns
        + found.loop_ns * found.main_threads
        + found.epoch_start_ns * max(1, found.workers or 0)
    )
    extra_ns = tree * found.cores * found.step_ns - known_ns - _PASSING_NS
    if fetch.off_core < _HELPERS or extra_ns < _HELPERS * fetch.off_ns:
        return found
    off_core = max(0.0, fetch.off_ns - extra_ns) / fetch.wall_ns
    computing = replace(fetch, off_core=off_core, off_core_ci=None)
    return replace(found, fetch=computing, helpers_ns=extra_ns)


def _threads(value: Any) -> int | None:
    threads = positive(value)
    return None if threads is None else int(threads)
