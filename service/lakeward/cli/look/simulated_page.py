"""A simulation as one HTML file: curves of each policy over time, as SVG. It asks nothing of any server.

Touches: nothing.
Keeps:   1. the file has no script, no link and no name of another file;
         2. names of tables and policies are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 160
_COLOURS = ("#555", "#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#a16207")

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "svg{width:100%;height:auto;border-left:1px solid #999;border-bottom:1px solid #999}"
    "polyline{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}"
    "table{border-collapse:collapse}td,th{padding:.1rem .7rem;text-align:right}"
    "td:first-child,th:first-child{text-align:left}"
    "pre{white-space:pre-wrap}"
)


@dataclass(frozen=True, slots=True)
class Curves:
    title: str
    show: Callable[[float], str]
    values: Mapping[str, Sequence[float]]
    """Means over equal parts of the time, by policy."""


def simulated_page(title: str, intro: str, curves: Sequence[Curves], notes: Sequence[str]) -> str:
    """
    Args:
        notes: what the command says below its tables.
    """
    drawn = "".join(_section(each) for each in curves)
    said = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1><p>{escape(intro)}</p>{drawn}{said}</body></html>\n"
    )


def _section(curves: Curves) -> str:
    most = max((value for values in curves.values.values() for value in values), default=0.0)
    lines, rows = [], []
    for number, (name, values) in enumerate(curves.values.items()):
        colour, mean = _COLOURS[number % len(_COLOURS)], sum(values) / len(values)
        if most > 0:
            lines.append(
                f'<polyline stroke="{colour}" points="{_points(values, most)}"><title>{escape(name)}</title></polyline>'
            )
        cells = (escape(curves.show(mean)), escape(curves.show(max(values))))
        rows.append(f'<tr><td style="color:{colour}">{escape(name)}</td><td>{cells[0]}</td><td>{cells[1]}</td></tr>')
    label = escape(f"{curves.title}, at most {curves.show(most)}")
    return (
        f"<h2>{label}</h2>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"{''.join(lines)}</svg>"
        f"<table><tr><th>policy</th><th>mean</th><th>at most</th></tr>{''.join(rows)}</table>"
    )


def _points(values: Sequence[float], most: float) -> str:
    step = WIDTH / max(1, len(values) - 1)
    return " ".join(f"{place * step:.1f},{HEIGHT - HEIGHT * value / most:.1f}" for place, value in enumerate(values))
