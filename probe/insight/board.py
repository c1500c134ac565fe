"""Several strategies against a baseline: what each reaches, of what there is to reach."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist, fmean, stdev
from typing import Any

from probe.insight import crowding, words
from probe.insight.bootstrap import MIN_STEPS, Ratio
from probe.insight.repeats import LEVEL, holm, mean_rate, pairs
from probe.insight.settings import Side, obstacle, surroundings
from probe.insight.summary import summarize
from probe.insight.throughput import (
    CANNOT_TELL,
    FASTER,
    NO_DIFFERENCE,
    SLOWER,
    Interval,
    Units,
    counted_by,
    quotient,
    rate,
    steady_part,
    verdict_of,
)

CEILING = "ceiling"
IO_ONLY = "io-only"

# Runs that are alike in all of these, of one strategy and one experiment, are repeats.
_REPEATED = ("chain", "dataset", "batch_size", "num_workers", "prefetch_factor", "pin_memory")
_ROUND = "repeat-"
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Entry:
    """One strategy on the board; rates are in samples/s of steady steps, or in the board's unit.

    Attributes:
        name: What to call it.
        runs: The uid of each of its runs, the oldest first.
        repeats: The rate of each run that has one, in the same order.
        repeat_ratios: The same ÷ the baseline's mean rate.
        samples_per_s: Their geometric mean; None when there is none.
        between: Standard deviation of the repeats, as a share of their mean; None with one.
        ratio: Its rate ÷ the baseline's.
        ratio_ci: 95 % interval of the ratio, for this candidate alone.
        p_adjusted: p-value of no difference, by Holm's method for all candidates.
        verdict: `baseline`, or what a comparison may say.
        stall_share: Mean over its runs, 0–1.
        io_only: The rate of its loader alone.
        of_ceiling: `samples_per_s` ÷ the ceiling.
        overlap: `samples_per_s` ÷ the smaller of ceiling and `io_only`: what was reached of what
            reading beside computing could give.
    """

    name: str
    runs: list[str]
    repeats: list[float]
    repeat_ratios: list[float]
    samples_per_s: float | None
    between: float | None
    ratio: float | None
    ratio_ci: Interval | None
    p_adjusted: float | None
    verdict: str
    stall_share: float | None
    io_only: float | None
    of_ceiling: float | None
    overlap: float | None


@dataclass(frozen=True, slots=True)
class Board:
    """Strategies, the first of which is the baseline; see `board`.

    `ceiling` is the rate of the training step with batches from memory; None where not measured.
    """

    baseline: str
    unit: str
    entries: list[Entry]
    ceiling: float | None
    sentence: str
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return what `probe compare A B C --json` prints."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Group:
    """The runs of one strategy, with the rate of each; by round, None where there is none."""

    name: str
    sides: list[Side]
    rates: list[Ratio | None]
    rounds: list[int]

    @property
    def known(self) -> list[float]:
        return [found.value * _NS_PER_S for found in self.rates if found is not None]

    @property
    def single(self) -> tuple[Side, Ratio] | None:
        pairs = zip(self.sides, self.rates, strict=True)
        return next(((side, found) for side, found in pairs if found is not None), None)


def board(sides: Sequence[Side], beside: Sequence[Side] = ()) -> Board:
    """Set several strategies against the first.

    Runs of one strategy are repeats, and a repeat counts as one observation, so that an interval
    holds what differs from one start of a run to the next. Repeats of one round ran close together
    and are compared with each other; without rounds, the first with the first and so on. Where a
    strategy has one run, the interval comes from how the steps vary within the run.

    With many candidates one would look faster by chance. A difference is claimed if it holds at
    5 % by Holm's method for all of them together.

    Args:
        sides: Runs, those of the baseline first. What is tagged `ceiling` or `io-only` is no
            candidate.
        beside: Further runs, of which only what is tagged `ceiling` or `io-only` is used.

    Raises:
        ValueError: There is no candidate beside the baseline; one sentence.
    """
    raced = [side for side in sides if not _tagged(side, CEILING, IO_ONLY)]
    extra = {side.run.uid: side for side in (*sides, *beside) if _tagged(side, CEILING, IO_ONLY)}
    everyone = [steady_part(side) for side in (*raced, *extra.values())]
    units, remark = counted_by(everyone)
    rates = _rates(everyone, units)
    groups = _groups(raced, rates)
    if len(groups) < 2:
        raise ValueError("all of these runs are repeats of one strategy: name another to compare")
    ceiling = mean_rate([_value(rates[s.run.uid]) for s in extra.values() if _tagged(s, CEILING)])
    alone = [side for side in extra.values() if _tagged(side, IO_ONLY)]
    first = groups[0]
    found = [_against(first, group) for group in groups[1:]]
    chances = holm([None if ratio is None else ratio[2] for ratio in found])
    notes = list(_notes(groups, remark))
    baseline = mean_rate(first.known)
    entries = [_entry(first, baseline, rates, ceiling, alone)]
    for group, ratio, chance in zip(groups[1:], found, chances, strict=True):
        entry = _entry(group, baseline, rates, ceiling, alone)
        unlike = obstacle(first.sides[0], group.sides[0])
        if unlike:
            notes.append(f"No verdict on {group.name}: {unlike}.")
        if ratio is not None:
            verdict = CANNOT_TELL if unlike else _verdict(ratio[0], ratio[1], chance)
            entry = replace(
                entry, ratio=ratio[0], ratio_ci=ratio[1], p_adjusted=chance, verdict=verdict
            )
        else:
            entry = replace(entry, verdict=CANNOT_TELL)
        entries.append(entry)
    unit = "steps/s" if remark else "samples/s"
    return Board(first.name, unit, entries, ceiling, _sentence(entries, unit), notes)


def _tagged(side: Side, *tags: str) -> bool:
    return not set(tags).isdisjoint(side.run.tags)


def _rates(sides: Sequence[Side], units: list[Units] | None) -> dict[str, Ratio | None]:
    if units is None:
        return {side.run.uid: None for side in sides}
    return {
        side.run.uid: rate(side, own, seed=i)
        for i, (side, own) in enumerate(zip(sides, units, strict=True))
    }


def _groups(sides: Iterable[Side], rates: dict[str, Ratio | None]) -> list[_Group]:
    found: dict[tuple[object, ...], list[Side]] = {}
    for side in sides:
        of_race = side.run.experiment is not None and side.run.strategy is not None
        what = side.run.experiment if of_race else side.run.label
        settings = [str(getattr(side.loader, name)) for name in _REPEATED]
        key = (what, side.run.strategy, side.run.git_commit, side.run.device, *settings)
        same = found.setdefault(key, [])
        if side.run.uid not in [other.run.uid for other in same]:
            same.append(side)
    named = [same[0].run.strategy or same[0].run.label for same in found.values()]
    groups = []
    for same, name in zip(found.values(), named, strict=True):
        same.sort(key=lambda side: (side.run.started_at, side.run.id))
        if named.count(name) > 1:
            name = f"{name} ({same[0].run.label}, run {same[0].run.id})"
        rounds = [_round(side, i) for i, side in enumerate(same)]
        groups.append(_Group(name, same, [rates[side.run.uid] for side in same], rounds))
    return groups


def _round(side: Side, position: int) -> int:
    numbers = (tag.removeprefix(_ROUND) for tag in side.run.tags if tag.startswith(_ROUND))
    return next((int(number) for number in numbers if number.isdecimal()), position + 1)


def _against(first: _Group, other: _Group) -> tuple[float, Interval | None, float | None] | None:
    """Return ratio, interval and p-value of one candidate, or None without a rate on both sides."""
    if len(first.known) > 1 and len(other.known) > 1:
        last = max(*first.rounds, *other.rounds)
        by_round = {"a": _by_round(first, last), "b": _by_round(other, last)}
        if (pair := next(iter(pairs(by_round)), None)) and pair.interval is not None:
            return pair.ratio, pair.interval, pair.p
    if first.single is None or other.single is None:
        return None
    (a, before), (b, after) = first.single, other.single
    value, interval = quotient(before, after)
    interval = crowding.allowing_for(crowding.explained(a.crowd, b.crowd), interval)
    return value, interval, _p_of(value, interval)


def _by_round(group: _Group, last: int) -> list[float | None]:
    rates: list[float | None] = [None] * last
    for number, found in zip(group.rounds, group.rates, strict=True):
        rates[number - 1] = _value(found)
    return rates


def _value(found: Ratio | None) -> float | None:
    return None if found is None or not found.value else found.value * _NS_PER_S


def _p_of(value: float, interval: Interval) -> float:
    """Return the p-value that belongs to a 95 % interval (Altman & Bland, BMJ 2011;343:d2304)."""
    near = interval[0] if value > 1 else interval[1]
    distance = abs(math.log(value))
    reach = abs(math.log(value / near)) if near > 0 else math.inf
    if not reach:
        return 0.0 if distance else 1.0
    return 2 * NormalDist().cdf(-NormalDist().inv_cdf(1 - LEVEL / 2) * distance / reach)


def _verdict(ratio: float, interval: Interval | None, chance: float | None) -> str:
    if verdict_of(interval) == NO_DIFFERENCE:
        return NO_DIFFERENCE
    if chance is None or chance >= LEVEL:
        return CANNOT_TELL
    return FASTER if ratio > 1 else SLOWER


def _entry(
    group: _Group,
    against: float | None,
    rates: dict[str, Ratio | None],
    ceiling: float | None,
    alone: list[Side],
) -> Entry:
    reached = mean_rate(group.known)
    same = [side for side in alone if side.run.strategy == group.sides[0].run.strategy]
    io_only = mean_rate([_value(rates[side.run.uid]) for side in same])
    bound = None if ceiling is None or io_only is None else min(ceiling, io_only)
    stalls = [summarize(side.loader, side.steps).stall_share for side in group.sides]
    known = [stall for stall in stalls if stall is not None]
    return Entry(
        name=group.name,
        runs=[side.run.uid for side in group.sides],
        repeats=group.known,
        repeat_ratios=[] if not against else [one / against for one in group.known],
        samples_per_s=reached,
        between=stdev(map(math.log, group.known)) if len(group.known) > 1 else None,
        ratio=None if reached is None else 1.0,
        ratio_ci=None,
        p_adjusted=None,
        verdict="baseline",
        stall_share=fmean(known) if known else None,
        io_only=io_only,
        of_ceiling=None if reached is None or ceiling is None else reached / ceiling,
        overlap=None if reached is None or bound is None else reached / bound,
    )


def _notes(groups: list[_Group], remark: str | None) -> Iterable[str]:
    if remark:
        yield remark
    candidates = len(groups) - 1
    if candidates > 1:
        yield (
            f"With {candidates} candidates one would look different by chance. A difference counts"
            " if it holds at 5 % by Holm's method for all of them together; the intervals are for"
            " each alone."
        )
    varied = [(stdev(map(math.log, g.known)), g.name) for g in groups if len(g.known) > 1]
    if varied:
        most, name = max(varied)
        yield (
            "A repeat counts as one observation. Repeats of one strategy vary by up to"
            f" {words.percent(most)} ({name}), standard deviation."
        )
    if any(len(group.known) == 1 for group in groups):
        yield (
            "A single run does not show how one start differs from the next: its interval knows"
            " how steps vary, and is too narrow by the rest."
        )
    for group in groups:
        few = sum(len(steady_part(side).steps) < MIN_STEPS for side in group.sides)
        if few:
            yield f"{group.name}: {words.plural(few, 'run')} with too few steps left out."
    first = groups[0].sides[0]
    yield from dict.fromkeys(s for g in groups[1:] for s in surroundings(first, g.sides[0]))


def _sentence(entries: list[Entry], unit: str) -> str:
    first, *others = entries
    better = [entry for entry in others if entry.verdict == FASTER and entry.ratio is not None]
    if not better:
        return f"Nothing is shown to be faster than {first.name}."
    best = max(better, key=lambda entry: entry.ratio or 0)
    assert best.ratio is not None
    found = f"{best.name} reached most: {words.times(best.ratio)} × the {unit} of {first.name}"
    if best.ratio_ci is not None:
        found += f" (95 %: {words.times_range(*best.ratio_ci)})"
    if best.of_ceiling is not None:
        found += f", {words.percent(best.of_ceiling)} of the ceiling"
    return f"{found}."
