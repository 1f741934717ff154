"""Draws curves as SVG that is read in dark and in light: panels side by side, both axes logarithmic, points with their standard error and the law."""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 330, 240                      # of a panel
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 34, 40     # its margins
STYLE = """<style>
text{font:11px sans-serif;fill:#333}.title{font-weight:bold;font-size:12px}.end{text-anchor:end}.mid{text-anchor:middle}
.grid{stroke:#ccc;stroke-width:.5}.law{stroke:#c60;stroke-width:1.5;fill:none}.computed{stroke-dasharray:4 3}.error{stroke:#06c;stroke-width:1.5}
.point{fill:#06c}.hollow{fill:none;stroke:#c60;stroke-width:1.5}
@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#555}.law,.hollow{stroke:#fa4}.error{stroke:#6bf}.point{fill:#6bf}}
</style>"""


def short(value):
    """1500 as "1.5k"."""
    for factor, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:g}{suffix}"
    return f"{value:g}"


class Scale:
    """A logarithmic axis from `first` to `last` pixels, with room around its values and at least one decade."""

    def __init__(self, values, first, last, least_decades=1.0):
        low, high = math.log10(min(values)), math.log10(max(values))
        room = max(0.06 * (high - low), (least_decades - (high - low)) / 2, 0.03)
        self.low, self.high, self.first, self.last = low - room, high + room, first, last

    def __call__(self, value):
        return self.first + (math.log10(value) - self.low) / (self.high - self.low) * (self.last - self.first)

    def ticks(self):
        """1, 2, 5 of each decade, or the decades alone where those would crowd."""
        steps = (1, 2, 5) if self.high - self.low < 2.2 else (1,)
        values = [step * 10.0 ** decade for decade in range(math.floor(self.low), math.ceil(self.high) + 1) for step in steps]
        return [value for value in values if self.low <= math.log10(value) <= self.high]


def panel(title, x_name, points, law, computed):
    """One panel: `points` are (x, y, standard error), `computed` are further x that the law is drawn to."""
    xs, ys = [x for x, _, _ in points] + computed, [y for _, y, _ in points] + [law.at(x) for x in computed]
    across, up = Scale(xs, LEFT, WIDTH - RIGHT), Scale(ys, HEIGHT - BOTTOM, TOP)
    out = [f'<text class="title" x="{LEFT}" y="16">{escape(title)}</text>',
           f'<text class="mid" x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 6}">{escape(x_name)}</text>']
    for value in up.ticks():
        out += [f'<path class="grid" d="M{LEFT} {up(value):.1f}H{WIDTH - RIGHT}"/>',
                f'<text class="end" x="{LEFT - 5}" y="{up(value) + 4:.1f}">{short(value)}</text>']
    for value in across.ticks():
        out += [f'<path class="grid" d="M{across(value):.1f} {TOP}V{HEIGHT - BOTTOM}"/>',
                f'<text class="mid" x="{across(value):.1f}" y="{HEIGHT - BOTTOM + 15}">{short(value)}</text>']

    def curve(begin, end, style):
        steps = [begin * (end / begin) ** (step / 24) for step in range(25)]
        path = " ".join(f"{across(x):.1f} {up(law.at(x)):.1f}" for x in steps)
        out.append(f'<path class="{style}" d="M{path}"/>')

    curve(points[0][0], points[-1][0], "law")
    if computed:
        curve(points[-1][0], max(computed), "law computed")
        out += [f'<circle class="hollow" cx="{across(x):.1f}" cy="{up(law.at(x)):.1f}" r="3"/>' for x in computed]
    for x, y, error in points:
        low, high = max(y - error, y / 10), y + error
        out += [f'<path class="error" d="M{across(x):.1f} {up(low):.1f}V{up(high):.1f}"/>',
                f'<circle class="point" cx="{across(x):.1f}" cy="{up(y):.1f}" r="3"/>']
    return "\n".join(out)


def svg(panels):
    """The image of panels beside each other."""
    width = WIDTH * len(panels)
    groups = [f'<g transform="translate({WIDTH * at} 0)">\n{one}\n</g>' for at, one in enumerate(panels)]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" role="img">',
                      STYLE, *groups, "</svg>"]) + "\n"
