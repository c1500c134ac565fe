"""One file that shows runs as the dashboard does, for those who have neither probe nor a network.

    python html_report.py RECORDING OUTPUT UID...

A program of its own, as the dashboard is, so that `probe` itself never imports Plotly.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import count
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

import charts
import charts_compare
import text
from probe import tables
from probe.insight import series
from probe.insight.board import Board
from probe.insight.compare import Comparison
from probe.report import RunReport, board, comparison, report
from probe.store.queries import Run, Steps, Store
from probe.tables import Table

# Nothing is fetched: whatever a recording holds, this page reaches no network.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1B1F24; background: #FFFFFF;
  max-width: 960px; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.1rem; font-weight: 400; color: #57606A; }
h2 { font-size: 1.5rem; line-height: 1.3; margin-top: 3rem; overflow-wrap: anywhere; }
h3 { font-size: 1.05rem; margin: 2rem 0 0.5rem; }
table { border-collapse: collapse; font-size: 0.875rem; }
.wide { overflow-x: auto; }
th, td { padding: 0.25rem 0.75rem; text-align: left; border-bottom: 1px solid #D8DEE4; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.note { color: #57606A; }
"""
_number = count()


def render(store: Store, runs: Sequence[Run]) -> str:
    """Write the page: what a comparison of the runs says, if there are several, then each run.

    Args:
        store: The recording.
        runs: The runs; the first is the baseline.
    """
    parts = [f"<h1>probe · {escape(store.path.name)} · {escape(_names(runs))}</h1>"]
    if len(runs) == 2:
        parts += _comparison(comparison(store, *runs), [_watched(store, run) for run in runs])
    elif len(runs) > 2:
        parts += _board(board(store, runs))
    for run in runs:
        parts += _run(store, report(store, run), _watched(store, run))
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>probe · {escape(_names(runs))}</title><style>{_STYLE}</style>"
        f"<script>{get_plotlyjs()}</script>"
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _names(runs: Sequence[Run]) -> str:
    return ", ".join(run.label for run in runs)


def _watched(store: Store, run: Run) -> Steps | None:
    found = report(store, run)
    if found.consumer is None:
        return None
    return store.steps(run.id, found.rows[found.loaders.index(found.consumer)].id)


def _comparison(found: Comparison, steps: Sequence[Steps | None]) -> Iterator[str]:
    yield f"<h2>{escape(found.sentence)}</h2>"
    yield from _paragraphs(found.warnings)
    stairs = series.staircase(found.baseline_ms, found.phases_ms_delta)
    if stairs is not None:
        yield "<h3>Where the time of a step went</h3>"
        yield _chart(charts.waterfall(found.baseline, found.candidate, stairs))
    yield _table(tables.changes(found))
    known = [each for each in steps if each is not None and series.waits(each).size]
    names = (found.baseline, found.candidate)
    if len(known) == 2:
        for what, durations in (("wait", series.waits), ("step", series.durations)):
            both = [series.distribution(durations(each)) for each in known]
            yield f"<h3>How long a {what} is</h3>"
            yield _chart(charts_compare.distributions(what, dict(zip(names, both, strict=True))))
        yield "<h3>Steps from steady state on</h3>"
        laid = [series.from_steady_state(each) for each in known]
        yield _chart(charts_compare.overlaid(dict(zip(names, laid, strict=True))))
    yield "<h3>Both runs in figures</h3>"
    yield _table(tables.figures(found))
    yield "<h3>Settings that differ</h3>"
    yield _table(tables.differences(found)) if found.differs else "<p>None that was recorded.</p>"
    if found.alike:
        yield f"<p class=note>The same in both: {escape(', '.join(found.alike))}.</p>"


def _board(found: Board) -> Iterator[str]:
    yield f"<h2>{escape(found.sentence)}</h2>"
    yield "<h3>How much faster than the baseline</h3>"
    yield _chart(charts_compare.forest(found))
    yield "<h3>How much of what is possible</h3>"
    yield _chart(charts_compare.reached(found))
    yield _table(tables.board(found))
    yield from _paragraphs(found.notes)


def _run(store: Store, found: RunReport, steps: Steps | None) -> Iterator[str]:
    yield f"<h2>{escape(found.run.label)}: {escape(found.verdict.sentence)}</h2>"
    yield f"<p class=note>{escape(text.run_line(found.run))}</p>"
    yield f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in found.verdict.evidence)}</ul>"
    if steps is None or found.consumer is None:
        return
    phases = series.median_step(steps)
    if phases is not None:
        yield "<h3>How the median step spends its time</h3>"
        yield _chart(charts.step_bar(phases, series.shares(phases)))
    buckets = series.bucketed(steps)
    if len(buckets):
        yield "<h3>Steps over time</h3>"
        host = store.host_samples(found.run.id)
        cpu = series.sampled(host.time_ns, host.cpu)
        gpus = store.gpu_samples(found.run.id)
        measured = (series.sampled(gpu.time_ns, gpu.utilization) for gpu in gpus)
        gpu = next((samples for samples in measured if samples), None)
        yield _chart(charts.timeline(buckets, series.axis_top_ms(buckets), gpu, cpu))
    times = {name: getattr(found.consumer.wait_ms, name) for name in ("p50", "p95", "p99")}
    marks = {name: at_ms for name, at_ms in times.items() if at_ms is not None}
    if marks:
        yield "<h3>How long the loop waits for a batch</h3>"
        yield _chart(charts.wait_distribution(series.distribution(series.waits(steps)), marks))


def _paragraphs(sentences: Iterable[str]) -> Iterator[str]:
    return (f"<p class=note>{escape(sentence)}</p>" for sentence in sentences)


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=number' * (i >= table.numbers_from)}>{escape(cell)}</{tag}>"
            for i, cell in enumerate(cells)
        )

    rows = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in table.rows)
    head = row(table.head, "th")
    return f"<div class=wide><table><thead><tr>{head}</tr></thead>{rows}</table></div>"


def _chart(figure: go.Figure) -> str:
    figure.update_layout(template="plotly_white")
    markup: str = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        config={**charts.STILL, "responsive": True},
        div_id=f"chart-{next(_number)}",
        default_height=f"{figure.layout.height}px",
    )
    return markup


def main(recording: str, output: str, *uids: str) -> None:
    """Write the report on some runs of a recording."""
    with Store(recording) as store:
        page = render(store, [store.run(uid) for uid in uids])
    Path(output).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
