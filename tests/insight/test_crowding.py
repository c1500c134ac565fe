"""What other programs did to a run is known, and a verdict does not take it for a change."""

from __future__ import annotations

import numpy as np
import pytest
from sides import make_side, make_steps

from probe.insight.compare import compare
from probe.insight.crowding import Crowd, crowd, explained
from probe.insight.settings import Side
from probe.store.queries import HostSamples


def host(cpu: list[float], tree_cpu: list[float]) -> HostSamples:
    nothing = np.full(len(cpu), np.nan)
    times = np.arange(len(cpu))
    return HostSamples(times, np.array(cpu), np.array(tree_cpu), *[nothing] * 3)


@pytest.mark.parametrize(
    ("cpu", "tree_cpu", "found"),
    [
        ([1.0, 1.0], [0.4, 0.6], 0.5),
        ([1.0, 0.7], [0.4, 0.1], 0.3),  # a core was free in the second moment
        ([1.0, np.nan], [0.4, 0.1], 0.6),
        ([0.95, 0.95], [1.0, 0.95], 0.0),  # clocks that disagree are not negative others
        ([np.nan], [0.5], None),
        ([], [], None),
    ],
)
def test_others_count_only_while_no_core_is_free(
    cpu: list[float], tree_cpu: list[float], found: float | None
) -> None:
    share = crowd(host(cpu, tree_cpu))
    assert (None if share is None else share.share) == pytest.approx(found)


def test_few_samples_of_what_varies_are_known_less_well() -> None:
    few, many = (crowd(host([1.0, 1.0] * n, [0.4, 0.6] * n)) for n in (2, 50))
    assert few is not None
    assert many is not None
    assert few.error == pytest.approx(0.05)
    assert many.error == pytest.approx(0.01)
    low, high = explained(few, few)
    assert (low, high) == (pytest.approx(1 / high), pytest.approx(np.exp(0.1 * 2**0.5)))


def side(wait_ms: float, shaken: float | None, name: str) -> Side:
    made = make_side(make_steps(400, wait_ms=wait_ms), {"name": name})
    return Side(
        made.run, made.loader, made.steps, crowd=None if shaken is None else Crowd(shaken, 0.0)
    )


def test_a_slow_down_that_others_explain_gets_no_verdict() -> None:
    found = compare(side(10, 0.0, "quiet"), side(14, 0.4, "crowded"))
    assert found.verdict == "cannot tell"
    assert found.throughput_ci == pytest.approx((10 / 14, 10 / 14 / 0.6))
    [said] = [warning for warning in found.warnings if "Other programs" in warning]
    assert "took 0 % of the cores during quiet and 40 % during crowded" in said
    assert "1.67 ×" in said
    assert compare(side(10, 0.0, "a"), side(20, 0.4, "b")).verdict == "slower"


def test_others_never_explain_a_run_that_was_faster_beside_them() -> None:
    assert compare(side(14, 0.0, "quiet"), side(10, 0.4, "crowded")).verdict == "faster"
    assert compare(side(14, 0.4, "crowded"), side(10, 0.0, "quiet")).verdict == "cannot tell"


def test_what_was_not_measured_or_is_alike_widens_nothing() -> None:
    for shaken in ((None, 0.5), (0.5, None), (0.5, 0.5)):
        found = compare(side(10, shaken[0], "a"), side(14, shaken[1], "b"))
        assert found.verdict == "slower"
        assert not any("Other programs" in warning for warning in found.warnings)
