"""The course of a race: which run comes when, and when to stop."""

from __future__ import annotations

import warnings
from pathlib import Path

from probe.insight.summary import WARM_UP_STEPS
from probe.racing.laps import Lap, drive, sentence_of, settle
from probe.racing.progress import Bar
from probe.racing.result import Ran, order_is_decided
from probe.run import run


class Course:
    """One race.

    Attributes:
        ran: The runs that were recorded, without those that failed.
        failed: What went wrong, by strategy in words.
        rounds: How many rounds were run in full.
        interrupted: Whether Ctrl-C has ended it.
    """

    def __init__(
        self,
        racing: list[Lap],
        reading: list[Lap],
        ceiling: Lap,
        *,
        steps: int,
        repeats: int,
        deadline: float,
        experiment: str,
        db: Path,
    ) -> None:
        self.racing, self.reading, self.ceiling = racing, reading, ceiling
        self.steps, self.repeats, self.deadline = steps, repeats, deadline
        self._whole = steps + WARM_UP_STEPS
        self.experiment, self.db = experiment, db
        self.ran: list[Ran] = []
        self.failed: dict[str, str] = {}
        self.rounds = 0
        self.interrupted = False

    def go(self, progress: bool) -> str:
        """Run it, and say why it ended when it did."""
        laps = len(self.reading) + (len(self.racing) + 1) * self.repeats
        try:
            with Bar(laps * self._whole, shown=progress) as bar, warnings.catch_warnings():
                # More workers than cores is one of the things that are tried.
                warnings.filterwarnings("ignore", message="This DataLoader will create")
                return self._all(bar)
        except KeyboardInterrupt:
            self.interrupted = True
            where = f"round {self.rounds + 1} of {self.repeats}"
            return f"Interrupted in {where}; this was measured until then."

    @property
    def sound(self) -> list[str]:
        """The strategies in words that have not failed."""
        return [lap.title for lap in self.racing if lap.title not in self.failed]

    def _all(self, bar: Bar) -> str:
        # The first one reads what lies in no cache yet: that had better not be a run that counts.
        first, *others = self.reading
        after = {0: [first], 1: others}
        for repeat in range(self.repeats + 1):
            turns = self._order(repeat) if repeat else []
            for lap in turns:
                if not self._lap(lap, repeat, bar):
                    return self._time_is_over()
            self.rounds = repeat
            for lap in after.get(repeat, []):
                if not self._lap(lap, 0, bar):
                    return self._time_is_over()
            if not self.sound:
                break
            if 2 <= repeat < self.repeats and self._decided():
                return f"Stopped after round {repeat} of {self.repeats}: the order is decided."
        return f"All {self.repeats} rounds were run."

    def _order(self, repeat: int) -> list[Lap]:
        """Return all that take turns, each time beginning with another one."""
        everyone = [self.ceiling, *self.racing]
        first = (repeat - 1) % len(everyone)
        return everyone[first:] + everyone[:first]

    def _lap(self, lap: Lap, repeat: int, bar: Bar) -> bool:
        """Run one turn; return False when time is over."""
        if lap.title in self.failed:
            bar.skip(self._whole)
            return True
        bar.says(f"round {repeat} of {self.repeats}: {lap.title}" if repeat else lap.name)
        recorded = run(
            f"{lap.name} #{repeat}" if repeat else lap.name,
            strategy=lap.title,
            experiment=self.experiment,
            tags=[lap.tag, f"repeat-{repeat}"] if repeat else [lap.tag],
            db=self.db,
        )
        try:
            with recorded:
                done = drive(lap, self.steps, self.deadline, bar.step)
        except Exception as error:
            self.failed[lap.title] = sentence_of(error)
            return True
        except KeyboardInterrupt:
            self._keep(recorded, lap, repeat)
            raise
        finally:
            settle()
        self._keep(recorded, lap, repeat)
        return done

    def _keep(self, recorded: run, lap: Lap, repeat: int) -> None:
        if recorded.uid is not None:
            self.ran.append(Ran(recorded.uid, lap.tag, lap.title, repeat))

    def _time_is_over(self) -> str:
        return f"Time was over in round {self.rounds + 1} of {self.repeats}."

    def _decided(self) -> bool:
        return order_is_decided(self.sound, self.db, self.ran, self.repeats - 2)
