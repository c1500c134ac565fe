"""How well a prefetcher overlaps loading with training, told from both of its ends."""

from __future__ import annotations

from dataclasses import dataclass

from probe.insight import words
from probe.insight.summary import steady
from probe.store.queries import Loader, Steps


@dataclass(frozen=True, slots=True)
class Overlap:
    """A producer, the consumer that its batches reach, and how much of either hides the other.

    Rates are in consumer steps per second: what the producer alone could deliver (`io_per_s`),
    what the loop alone could take (`synthetic_per_s`), and what came of both (`full_per_s`).
    `efficiency` is full ÷ min(io, synthetic), as benchy defines it: 1 means that the slower of
    the two was never held up by the other.
    """

    producer: str
    consumer: str
    io_per_s: float
    synthetic_per_s: float
    full_per_s: float
    efficiency: float

    @property
    def sentence(self) -> str:
        """The same in words."""
        return (
            f"Producer {self.producer} alone: {words.rate(self.io_per_s)} steps/s; loop"
            f" {self.consumer} alone: {words.rate(self.synthetic_per_s)}; together"
            f" {words.rate(self.full_per_s)}, {words.percent(self.efficiency)} of the slower one."
        )


def overlaps(watched: list[tuple[Loader, Steps]]) -> list[Overlap]:
    """Pair each producer of a run with its consumer.

    A producer's own wait is the time that it took to make a batch: the loop's wait is measured at
    the other end of the prefetcher. With several consumers a producer belongs to the one whose
    steps it was active in the longest.

    Args:
        watched: The loaders of one run with their steps.
    """
    consumers = [(loader, steps) for loader, steps in watched if loader.role == "consumer"]
    found = []
    for loader, steps in watched:
        if loader.role != "producer" or not consumers:
            continue
        consumer, taken = max(consumers, key=lambda pair: _shared_ns(steps, pair[1]))
        pair = _overlap(loader, steps, consumer, taken)
        if pair is not None:
            found.append(pair)
    return found


def _overlap(loader: Loader, steps: Steps, consumer: Loader, taken: Steps) -> Overlap | None:
    made, used = steady(steps), steady(taken)
    if not made.any() or not used.any() or not _shared_ns(steps, taken):
        return None
    fetches_a_step = len(steps) / len(taken)
    io_ns = float(steps.wait_ns[made].mean() + steps.copy_ns[made].mean()) * fetches_a_step
    full_ns = float(taken.step_ns[used].mean())
    synthetic_ns = full_ns - float(taken.wait_ns[used].mean())
    if io_ns <= 0 or synthetic_ns <= 0:
        return None
    return Overlap(
        producer=loader.name,
        consumer=consumer.name,
        io_per_s=1e9 / io_ns,
        synthetic_per_s=1e9 / synthetic_ns,
        full_per_s=1e9 / full_ns,
        efficiency=max(io_ns, synthetic_ns) / full_ns,
    )


def _shared_ns(producer: Steps, consumer: Steps) -> int:
    if not len(producer) or not len(consumer):
        return 0
    begin = max(int(producer.start_ns[0]), int(consumer.start_ns[0]))
    end = min(
        int(producer.start_ns[-1] + producer.step_ns[-1]),
        int(consumer.start_ns[-1] + consumer.step_ns[-1]),
    )
    return max(0, end - begin)
