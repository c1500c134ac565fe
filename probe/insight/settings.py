"""What two runs were set to, and whether that leaves anything to compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from probe.insight import words
from probe.insight.crowding import Crowd
from probe.store.queries import Loader, Run, Steps

# Only what could explain a difference: not what tells runs apart, such as name, times or process.
_LOADER_SETTINGS = (
    "chain",
    "dataset",
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "start_method",
    "in_order",
    "length",
)
_RUN_SETTINGS = (
    "strategy",
    "command",
    "git_commit",
    "host",
    "device",
    "driver",
    "world_size",
    "python",
    "torch",
    "probe_version",
)

_VERSIONS = ("python", "torch", "driver", "probe_version")

# Settings of worker processes: without any they mean nothing.
_OF_WORKERS = ("prefetch_factor", "persistent_workers", "start_method")
_LOADING = ("chain", "num_workers", "pin_memory", "in_order", *_OF_WORKERS)

# Loaders that do not say their batch size are held to this, since a last batch may be smaller.
_SAME_SIZE = 0.01


@dataclass(frozen=True, slots=True)
class Side:
    """One of the runs that are compared, with the loader that is looked at and its steps.

    `gpu_utilization` is the mean of its GPU, 0–1. `crowd` is how much other programs
    got in its way. None where not measured.
    """

    run: Run
    loader: Loader
    steps: Steps
    gpu_utilization: float | None = None
    crowd: Crowd | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting with its value in each run; None where it was not recorded."""

    setting: str
    a: object
    b: object


def differences(a: Side, b: Side) -> list[Difference]:
    """List every recorded setting that differs, the loader's first.

    The entries of a run's `config` are named `config.…`, one by one.
    """
    left, right = dict(_settings(a.run, a.loader)), dict(_settings(b.run, b.loader))
    return [
        Difference(name, left.get(name), right.get(name))
        for name in left | right
        if left.get(name) != right.get(name)
    ]


def obstacle(a: Side, b: Side) -> str | None:
    """Name the setting that makes a verdict on two runs meaningless, or return None."""
    return other_work(a, b) or other_hardware(a, b)


def other_work(a: Side, b: Side) -> str | None:
    """Say how the batch sizes differ, or return None: then a step is the same work in both."""
    sizes = _batch_sizes(a, b)
    if sizes is None or abs(sizes[0] - sizes[1]) <= _SAME_SIZE * max(sizes):
        return None
    return f"the batch size differs ({sizes[0]:g}, {sizes[1]:g}), and with it the work of a step"


def other_hardware(a: Side, b: Side) -> str | None:
    """Say how the hardware differs, or return None; what was not recorded does not differ."""
    for what, left, right in (
        ("device", a.run.device, b.run.device),
        ("number of ranks", a.run.world_size, b.run.world_size),
        ("number of cores", a.run.config.get("cores"), b.run.config.get("cores")),
    ):
        if None not in (left, right) and left != right:
            return f"the {what} differs ({left}, {right})"
    return None


def caveats(a: Side, b: Side) -> list[str]:
    """List what a reader of the comparison should know, one sentence each."""
    found = []
    if a.run.id == b.run.id:
        found.append("Both are the same run.")
    for run in (a.run, b.run):
        if run.status == "running":
            found.append(f"{run.label} is still running.")
        if run.dropped:
            found.append(f"{run.label} lacks {words.count(run.dropped)} steps that were dropped.")
    found += surroundings(a, b)
    if len(changed := _other_loading(a.loader, b.loader)) > 1:
        found.append(
            f"More than one loader setting differs ({', '.join(changed)}): what each of them did"
            " cannot be told apart."
        )
    return found


def surroundings(a: Side, b: Side) -> list[str]:
    """List what differs around the loader, one sentence each: work, machine, data, versions."""
    found = []
    unlike = other_work(a, b), other_hardware(a, b)
    found += [f"{said[:1].upper()}{said[1:]}." for said in unlike if said]
    for what, left, right in (
        ("data set", a.loader.dataset, b.loader.dataset),
        ("machine", a.run.host, b.run.host),
        ("number of torch threads", *(run.config.get("torch_threads") for run in (a.run, b.run))),
    ):
        if left != right:
            found.append(f"The {what} differs: {_or_unknown(left)}, {_or_unknown(right)}.")
    if versions := _other_versions(a.run, b.run):
        found.append(f"Versions differ: {', '.join(versions)}.")
    return found


def alike(a: Side, b: Side) -> list[str]:
    """Name what is the same in two runs, of that which makes a comparison fair."""
    same_machine = a.run.host == b.run.host and other_hardware(a, b) is None
    return [
        what
        for what, same in (
            ("batch size", _batch_sizes(a, b) is not None and other_work(a, b) is None),
            ("data set", a.loader.dataset is not None and a.loader.dataset == b.loader.dataset),
            ("machine", a.run.host is not None and same_machine),
            ("versions", not _other_versions(a.run, b.run)),
        )
        if same
    ]


def _batch_sizes(a: Side, b: Side) -> tuple[float, float] | None:
    """Return samples a step of both: as declared, else as seen, else None."""
    if a.loader.batch_size is not None and b.loader.batch_size is not None:
        return a.loader.batch_size, b.loader.batch_size
    if np.isnan(a.steps.samples).any() or np.isnan(b.steps.samples).any():
        return None
    return float(a.steps.samples.mean()), float(b.steps.samples.mean())


def _other_versions(a: Run, b: Run) -> list[str]:
    left, right = (
        {name: getattr(run, name) for name in _VERSIONS}
        | dict(_flat("", run.config.get("versions")))
        for run in (a, b)
    )
    return [
        f"{name.lstrip('.')} {_or_unknown(left.get(name))} → {_or_unknown(right.get(name))}"
        for name in left | right
        if left.get(name) != right.get(name)
    ]


def _other_loading(a: Loader, b: Loader) -> list[str]:
    found = [name for name in _LOADING if getattr(a, name) != getattr(b, name)]
    if a.num_workers and b.num_workers:
        return found
    return [name for name in found if name not in _OF_WORKERS]


def _or_unknown(value: object) -> object:
    return "unknown" if value is None else value


def _settings(run: Run, loader: Loader) -> Iterator[tuple[str, object]]:
    for name in _LOADER_SETTINGS:
        yield name, getattr(loader, name)
    for name in _RUN_SETTINGS:
        yield name, getattr(run, name)
    yield from _flat("config", run.config)


def _flat(name: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
    else:
        yield name, value
