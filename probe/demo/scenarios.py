"""What the demo tries: why loading is slow, and how batches may reach the loop nevertheless."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Strategy:
    """One way for batches to reach the training loop.

    Attributes:
        name: What the run is called, after the scenario.
        title: What is written on screen and in `runs.strategy`.
        because: What it does about waiting.
        workers: `num_workers`.
        thread: Whether a background thread is put around the loader.
        stream: Whether batches are copied ahead on a stream of their own.
    """

    name: str
    title: str
    because: str
    workers: int = 0
    thread: bool = False
    stream: bool = False


@dataclass(frozen=True)
class Scenario:
    """What makes loading slow.

    Attributes:
        sentence: Says it on screen.
        pixels: Width and height of the files' pictures.
        batch_size: Pictures in a batch.
        read_ms: Simulated time to read a file, median.
        spread: How much that varies; see `Pictures`.
        augment: Whether pictures are cropped, resized and flipped.
        workers: The numbers of worker processes to try.
        prefetch_factor: Batches that each worker makes ahead. With one, workers begin again in the
            order in which the loop takes their batches, so they stay in step.
    """

    sentence: str
    pixels: int = 96
    batch_size: int = 16
    read_ms: float = 0.0
    spread: float = 0.0
    augment: bool = False
    workers: tuple[int, ...] = (2,)
    prefetch_factor: int = 2


SCENARIOS = {
    "storage": Scenario(
        "Simulated: every file read waits about 2.5 ms, as a remote object store would.",
        read_ms=2.5,
        spread=0.3,
    ),
    "decode": Scenario(
        "Work for the CPU: every picture of 384 × 384 pixels is decoded, cropped and resized.",
        pixels=384,
        augment=True,
    ),
    "burst": Scenario(
        "Simulated: every file read waits 30 ms. Many workers deliver a batch each, all at once, "
        "and then nothing for a while.",
        batch_size=4,
        read_ms=30.0,
        workers=(2, 8),
        prefetch_factor=1,
    ),
}

PLAIN = Strategy("plain", "DataLoader, 0 workers", "")


def strategies(scenario: Scenario, cuda: bool) -> list[Strategy]:
    """List what is tried, the simplest first.

    Args:
        scenario: What makes loading slow.
        cuda: Whether there is a CUDA device to copy to.
    """
    found = [
        PLAIN,
        Strategy(
            "thread",
            "background thread",
            "a thread makes the next batch while this one trains",
            thread=True,
        ),
    ]
    for workers in scenario.workers:
        name, title = f"w{workers}", f"{workers} workers"
        because = f"{workers} processes make batches while the loop trains"
        found.append(Strategy(name, f"DataLoader, {title}", because, workers))
    found.append(
        Strategy(
            f"{name}-thread",
            f"{title} + background thread",
            f"{because}, and a thread takes them over",
            workers,
            thread=True,
        )
    )
    if cuda:
        found.append(
            Strategy(
                f"{name}-stream",
                f"{title} + side-stream copy",
                f"{because}, and the next one is copied meanwhile",
                workers,
                stream=True,
            )
        )
    return found
