#!/usr/bin/env python3
"""Draws the JSON of a benchmark as a chart in plain SVG, without scripts or fonts.

  bench/compare_peers.py --peers PYTHON --json | bench/chart.py > engine.svg
  python bench/textbook.py --json | bench/chart.py > textbook.svg

The cases become bars: the share of the roof that was measured beside each run, and that of each
peer. Textbook attention becomes two panels, time and memory over the number of tokens, on
logarithmic axes.
"""
import json
import math
import sys
from xml.sax.saxutils import escape, quoteattr

ENGINE = "#2166ac"
PEERS = ("#e08214", "#fdb863", "#d6604d", "#c51b7d", "#8073ac", "#4d9221", "#3690c0", "#bf812d",
         "#35978f")
LEFT, FULL, WIDTH = 290, 500, 940  # where bars start, pixels of the whole roof, of the picture
BAR, THIN, GAP, HEADING, TOP = 14, 6, 8, 34, 76
PANEL, PANEL_TOP, PANEL_BOTTOM = 340, 84, 350


def tag(name, text=None, **attributes):
    words = "".join(f" {key.replace('_', '-')}={quoteattr(str(value))}"
                    for key, value in attributes.items())
    return f"<{name}{words}/>" if text is None else f"<{name}{words}>{escape(text)}</{name}>"


def label(x, y, text, **attributes):
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", **attributes)


def picture(width, height, heading, machine, parts, title=""):
    """The background is white, so that it is readable on any page."""
    head = f"{heading}: {machine['cpu']}, {machine['threads']} threads"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" role="img">',
        tag("title", title or head), tag("rect", width="100%", height="100%", fill="white"),
        label(16, 28, head, font_size=16, font_weight="bold"), *parts, "</svg>"])


def bars(result, colors):
    """Yields (share of the roof, color): of the engine, then of each peer with a result."""
    yield result["roof_part"], ENGINE
    for peer in result["peers"]:
        if peer.get("ratio"):
            yield result["roof_part"] / peer["ratio"], colors[peer["name"]]


def draw_cases(report):
    colors = {peer["name"]: PEERS[i % len(PEERS)] for i, peer in enumerate(report["peers"])}
    parts, y, group = [], TOP, None
    for result in report["results"]:
        if result["operation"] == "call":  # it has no roof
            continue
        if (result["operation"], result["level"]) != group:
            group = result["operation"], result["level"]
            name = group[0] + ("" if group[1] == "all" else ", AVX2 level")
            parts.append(label(16, y + HEADING - 12, name, font_weight="bold"))
            y += HEADING
        figures = f"{result['roof_part']:.0%}, {result['median_ms']:.4g} ms"
        parts.append(label(LEFT - 8, y + BAR - 3, result["shape"], text_anchor="end"))
        parts.append(label(WIDTH - 8, y + BAR - 3, figures, text_anchor="end", fill="#555"))
        for number, (share, color) in enumerate(bars(result, colors)):
            width = min(share * FULL, WIDTH - LEFT - 120)
            parts.append(tag("rect", x=LEFT, y=y, width=f"{width:.1f}",
                             height=THIN - 1 if number else BAR, fill=color))
            y += THIN if number else BAR
        y += GAP
    grid = []
    for quarter in range(5):
        x = LEFT + FULL * quarter / 4
        grid.append(tag("line", x1=x, y1=TOP, x2=x, y2=y,
                        stroke="#b2182b" if quarter == 4 else "#ddd"))
        grid.append(label(x, y + 14, f"{25 * quarter} %", text_anchor="middle", fill="#555"))
    x, row = LEFT + 70, 48
    parts.append(label(LEFT, row, "anyflash", fill=ENGINE, font_weight="bold"))
    for peer in report["peers"]:
        text = f"{peer['name']} {peer['version']}"
        if peer["version"] is None:
            continue
        if x + 10 + 7.2 * len(text) > WIDTH:
            x, row = LEFT, row + 15
        parts.append(label(x, row, text, fill=colors[peer["name"]]))
        x += 10 + 7.2 * len(text)
    return picture(WIDTH, y + 28, "Share of the roof measured beside each run",
                   report["machine"], grid + parts)


def draw_panel(left, title, step, units, curves, lengths):
    """`curves`: (name, color, values or why there is none); `units`: (name, size)."""
    values = [value for _, _, row in curves for value in row if not isinstance(value, str)]
    low = step ** math.floor(math.log(min(values), step))
    high = step ** math.ceil(math.log(max(values), step) + 1e-9)
    parts = [label(left, PANEL_TOP - 14, title, font_weight="bold")]

    def place(value):
        return PANEL_BOTTOM - (PANEL_BOTTOM - PANEL_TOP) * math.log(value / low, high / low)

    for exponent in range(round(math.log(high / low, step)) + 1):
        value = low * step ** exponent
        unit, size = [one for one in units if one[1] <= value * 1.001 or one is units[0]][-1]
        parts.append(tag("line", x1=left, y1=place(value), x2=left + PANEL, y2=place(value),
                         stroke="#ddd"))
        parts.append(label(left - 8, place(value) + 4, f"{value / size:.4g} {unit}",
                           text_anchor="end", fill="#555"))
    places = [left + PANEL * i / max(len(lengths) - 1, 1) for i in range(len(lengths))]
    for x, length in zip(places, lengths):
        parts.append(tag("line", x1=x, y1=PANEL_TOP, x2=x, y2=PANEL_BOTTOM, stroke="#ddd"))
        parts.append(label(x, PANEL_BOTTOM + 18, str(length), text_anchor="middle",
                           fill="#555"))
    parts.append(label(left + PANEL / 2, PANEL_BOTTOM + 38, "N, tokens", text_anchor="middle",
                       fill="#555"))
    for name, color, row in curves:
        drawn = [(x, place(value)) for x, value in zip(places, row)
                 if not isinstance(value, str)]
        why = next((value for value in row if isinstance(value, str)), "").split(":")[0]
        if not drawn:
            continue
        parts.append(tag("polyline", fill="none", stroke=color, stroke_width=2,
                         points=" ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)))
        x, y = drawn[-1]
        is_upper = color != ENGINE
        parts.append(tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=4, fill=color))
        parts.append(label(x - 10 if is_upper else x + 8, y if is_upper else y + 14,
                           f"{name} (then {why})" if why and is_upper else name, fill=color,
                           font_weight="bold", **({"text_anchor": "end"} if is_upper else {})))
    return parts


def draw_textbook(report):
    names = [name for name in report["results"][0] if name != "length"]
    colors = {"math": "#c05a00", "engine": ENGINE}
    lengths = [result["length"] for result in report["results"]]
    parts = [label(16, 48, f"{report['dtype']}, {report['heads']} heads of size "
                   f"{report['head_dim']}, not causal; both axes are logarithmic; "
                   f"torch {report['torch']}", fill="#555")]
    for left, title, step, units, key in (
            (74, "Time of one call", 10, (("ms", 1), ("s", 1000)), "median_ms"),
            (545, "Peak memory, tensors included", 4, (("MiB", 1 << 20), ("GiB", 1 << 30)),
             "peak_bytes")):
        curves = [({"engine": "anyflash", "math": "textbook"}.get(name, name),
                   colors.get(name, PEERS[i % len(PEERS)]),
                   [result[name].get(key, result[name].get("decline", ""))
                    for result in report["results"]])
                  for i, name in enumerate(names)]
        parts += draw_panel(left, title, step, units, curves, lengths)
    return picture(960, 400, "Textbook attention beside the engine",
                   {"cpu": report["device"], "threads": report["threads"]}, parts,
                   "Time and memory of textbook attention and of anyflash by the number of "
                   "tokens")


def main():
    report = json.load(sys.stdin)
    print(draw_cases(report) if "schema" in report else draw_textbook(report))


if __name__ == "__main__":
    main()
