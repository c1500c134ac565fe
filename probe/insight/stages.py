"""What the stages of making a batch cost, for runs that were recorded with `PROBE_STAGES=1`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from probe.insight import words
from probe.store.queries import Fetches, Stage


@dataclass(frozen=True, slots=True)
class StageCost:
    """One stage: its calls, its time a batch in ms, and its share of making the batch, 0–1.

    Times are inclusive: a data set's contain those of its transforms.
    """

    name: str
    calls: int
    ms_a_batch: float
    share: float

    @property
    def sentence(self) -> str:
        """The same in words."""
        return (
            f"{self.name}: {words.ms(self.ms_a_batch)} ms a batch,"
            f" {words.percent(self.share)} of making it."
        )


def costs(stages: Sequence[Stage], fetches: Fetches) -> list[StageCost]:
    """Relate stages to the batches that they were part of, the dearest first.

    Args:
        stages: Totals by name.
        fetches: The batches of the same loader; without any there is nothing to relate to.
    """
    batches, made_ns = len(fetches), int(fetches.wall_ns.sum()) if len(fetches) else 0
    if not made_ns:
        return []
    found = [
        StageCost(stage.name, stage.calls, stage.wall_ns / batches / 1e6, stage.wall_ns / made_ns)
        for stage in stages
    ]
    return sorted(found, key=lambda cost: -cost.ms_a_batch)
