"""What two runs were set to, and whether that leaves anything to compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from probe.insight import words
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


# Loaders that do not say their batch size are held to this, since a last batch may be smaller.
_SAME_SIZE = 0.01


@dataclass(frozen=True, slots=True)
class Side:
    """One of two runs that are compared, with the loader that is looked at and its steps."""

    run: Run
    loader: Loader
    steps: Steps


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
    sizes = _batch_sizes(a, b)
    if sizes is not None and abs(sizes[0] - sizes[1]) > _SAME_SIZE * max(sizes):
        return (
            f"the batch size differs ({sizes[0]:g}, {sizes[1]:g}), and with it the work of a step"
        )
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
    for what, left, right in (
        ("data set", a.loader.dataset, b.loader.dataset),
        ("machine", a.run.host, b.run.host),
    ):
        if left != right:
            found.append(f"The {what} differs: {_or_unknown(left)}, {_or_unknown(right)}.")
    return found


def _batch_sizes(a: Side, b: Side) -> tuple[float, float] | None:
    """Return samples a step of both: as declared, else as seen, else None."""
    if a.loader.batch_size is not None and b.loader.batch_size is not None:
        return a.loader.batch_size, b.loader.batch_size
    if np.isnan(a.steps.samples).any() or np.isnan(b.steps.samples).any():
        return None
    return float(a.steps.samples.mean()), float(b.steps.samples.mean())


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
