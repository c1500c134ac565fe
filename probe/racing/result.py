"""What a race has found: the board, and the strategy that is recommended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from probe.insight.board import Board, Entry, board
from probe.insight.bootstrap import MIN_STEPS
from probe.insight.repeats import best, decided, mean_rate, next_rate, not_slower
from probe.insight.settings import Side
from probe.insight.throughput import Interval, counted_by, per_second, steady_part
from probe.racing.loaders import MakeLoader, code
from probe.racing.strategies import Strategy
from probe.report import side
from probe.store.queries import Store

# A simpler strategy is worth a rate that is measured to be lower by this share of it.
TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a race, and where to find it.

    `title` is the strategy in words. `repeat` counts from 1; 0 is what is done once.
    """

    uid: str
    tag: str
    title: str
    repeat: int


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The simplest strategy that is not shown to be slower than the best.

    Attributes:
        strategy: Its name.
        title: The same in words, as on the board.
        code: Lines of Python that make the loader so.
        samples_per_s: What it has reached, the geometric mean of its repeats.
        predicted: Where one more run of it lies with 95 % probability; None with a single repeat.
    """

    strategy: str
    title: str
    code: str
    samples_per_s: float
    predicted: Interval | None


@dataclass(frozen=True, slots=True)
class RaceResult:
    """What `probe.race` returns; printed, it shows the board and what to use.

    Attributes:
        experiment: The name under which its runs are recorded.
        db: The recording.
        unit: samples/s, or steps/s where samples could not be counted.
        board: The strategies against the first; None where only one of them could be measured.
        failed: What went wrong, in a sentence, by strategy in words.
        repeats: How many rounds were run in full.
        stopped: Why the race ended when it did, in a sentence.
        interrupted: Whether Ctrl-C has ended it.
        best: The strategy in words that reached most of those that did not fail.
        recommended: What to use; None when nothing was measured.
    """

    experiment: str
    db: Path
    unit: str
    board: Board | None
    failed: dict[str, str]
    repeats: int
    stopped: str
    interrupted: bool
    best: str | None
    recommended: Recommendation | None

    @property
    def rows(self) -> list[Entry]:
        """The rows of the board, the baseline first; none where there is no board."""
        return self.board.entries if self.board else []

    def to_json(self) -> dict[str, Any]:
        """Return what `probe race --json` prints."""
        return {**asdict(self), "db": str(self.db)}

    def __str__(self) -> str:
        from probe.racing.table import text

        return text(self)


def order_is_decided(titles: Iterable[str], db: Path, ran: list[Ran], looks: int) -> bool:
    """Tell whether more repeats of these strategies would change nothing in what to recommend."""
    rates, _ = _rates(_sides(db, ran))
    return decided(_by_round(titles, ran, rates), looks)


def conclude(
    strategies: list[Strategy],
    make_loader: MakeLoader,
    ran: list[Ran],
    failed: dict[str, str],
    *,
    experiment: str,
    db: Path,
    repeats: int,
    stopped: str,
    interrupted: bool,
) -> RaceResult:
    """Read what a race has recorded and say what follows from it."""
    titles = [strategy.title for strategy in strategies]
    sides = _sides(db, ran)
    sound = [strategy for strategy in strategies if strategy.title not in failed]
    by_run, unit = _rates(sides)
    rates = _by_round([strategy.title for strategy in sound], ran, by_run)
    return RaceResult(
        experiment=experiment,
        db=db,
        unit=unit,
        board=_board(sorted(sides.values(), key=lambda side: _place(side, titles))),
        failed=failed,
        repeats=repeats,
        stopped=stopped,
        interrupted=interrupted,
        best=best(rates),
        recommended=_recommend(sound, make_loader, rates),
    )


def _sides(db: Path, ran: list[Ran]) -> dict[str, Side]:
    """Read each run, by its uid."""
    found: dict[str, Side] = {}
    with Store(db) as store:
        for run in (store.run(own.uid) for own in ran):
            if store.loaders(run.id):  # none if it was ended before its first batch
                found[run.uid] = side(store, run)
    return found


def _rates(sides: Mapping[str, Side]) -> tuple[dict[str, float], str]:
    """Return the rate of each run that has steps enough, by its uid, and the unit."""
    steady = {uid: steady_part(side) for uid, side in sides.items()}
    steady = {uid: side for uid, side in steady.items() if len(side.steps) >= MIN_STEPS}
    units, remark = counted_by(list(steady.values()))
    found = {}
    for (uid, own), unit in zip(steady.items(), units or [], strict=units is not None):
        if (rate := per_second(own, unit)) is not None:
            found[uid] = rate
    return found, "steps/s" if remark else "samples/s"


def _by_round(
    titles: Iterable[str], ran: list[Ran], rates: Mapping[str, float]
) -> dict[str, list[float | None]]:
    """Arrange the rates of what trained by strategy and round."""
    training = [run for run in ran if run.tag == "race"]
    last = max((run.repeat for run in training), default=0)
    found: dict[str, list[float | None]] = {title: [None] * last for title in titles}
    for run in training:
        if run.title in found:
            found[run.title][run.repeat - 1] = rates.get(run.uid)
    return found


def _place(side: Side, titles: list[str]) -> int:
    title = side.run.strategy
    return titles.index(title) if title in titles else len(titles)


def _board(sides: list[Side]) -> Board | None:
    # Whoever commits or edits during a race changes what is recorded, not what runs.
    commit = sides[0].run.git_commit if sides else None
    sides = [replace(side, run=replace(side.run, git_commit=commit)) for side in sides]
    try:
        return board(sides)
    except ValueError:  # one strategy alone
        return None


def _recommend(
    strategies: list[Strategy], make_loader: MakeLoader, rates: Mapping[str, list[float | None]]
) -> Recommendation | None:
    enough = not_slower(rates, TOLERANCE)
    candidates = [strategy for strategy in strategies if strategy.title in enough]
    if not candidates:
        return None
    chosen = min(candidates, key=lambda strategy: strategy.complexity)
    reached = mean_rate(rates[chosen.title])
    assert reached is not None
    return Recommendation(
        strategy=chosen.name,
        title=chosen.title,
        code=code(make_loader, chosen),
        samples_per_s=reached,
        predicted=next_rate(rates[chosen.title]),
    )
