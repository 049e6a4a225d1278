package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// width is that of a picture, and charts are between left and right, in pixels.
const width, left, right = 720.0, 52.0, 700.0

// style has colours that differ for any colour vision. The background is
// part of the picture, because a page may be dark where the picture is not.
const style = `<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round; }
.title { font-size: 16px; font-weight: 600; }
.code { font-family: ui-monospace, Menlo, Consolas, monospace; }
.soft { fill: #57606a; }
.plain, .inside { stroke: none; }
.inside { fill: #ffffff; }
.paper { fill: #ffffff; stroke: #d0d7de; }
.grid { stroke: #d0d7de; }
.edge, .limit, .span { fill: none; stroke: #1f2328; stroke-width: 1.5; }
.edge { stroke-dasharray: 2 3; }
.limit { stroke-dasharray: 6 4; }
.tick { stroke: #ffffff; stroke-width: 2; }
.curve { fill: none; stroke: #0072b2; stroke-width: 2; }
.area { fill: #0072b2; fill-opacity: 0.15; }
.yes { fill: #0072b2; }
.no { fill: none; stroke: #c84b00; stroke-width: 2.2; }
.dotted { stroke-width: 1.2; stroke-dasharray: 2 2; }
.above { fill: #c84b00; fill-opacity: 0.35; }
.lost { fill: #c84b00; fill-opacity: 0.2; stroke: #c84b00; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; stroke: #0d1117; }
.soft { fill: #9da7b3; }
.inside { fill: #0d1117; }
.paper { fill: #0d1117; stroke: #3d444d; }
.grid { stroke: #3d444d; }
.edge, .limit, .span { stroke: #e6edf3; }
.tick { stroke: #0d1117; }
.curve { stroke: #56b4e9; }
.area { fill: #56b4e9; fill-opacity: 0.25; }
.yes { fill: #56b4e9; }
.no, .lost { stroke: #f0a000; }
.above, .lost { fill: #f0a000; }
}
</style>`

// drawing is an SVG document.
type drawing struct{ strings.Builder }

// newDrawing begins a picture with its title, the numbers of the limit and a legend.
func newDrawing(height float64, title, numbers string) *drawing {
	d := &drawing{}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%[1]s" height="%[2]s" role="img">`, width, height)
	d.add("<title>%s</title>\n%s", title, style)
	d.add(`<rect class="paper" x="0.5" y="0.5" width="%s" height="%s" rx="8"/>`, width-1, height-1)
	d.text(20, 29, "title", "start", title)
	d.text(20, 54, "code", "start", numbers)
	d.circle(560, 49)
	d.text(570, 54, "", "start", "admitted")
	d.cross(642, 49)
	d.text(652, 54, "", "start", "refused")
	return d
}

func (d *drawing) end() string { return d.String() + "</svg>\n" }

// add writes a line. Its numbers are lengths.
func (d *drawing) add(format string, values ...any) {
	for i, v := range values {
		if v, ok := v.(float64); ok {
			values[i] = px(v)
		}
	}
	fmt.Fprintf(&d.Builder, format+"\n", values...)
}

// px is a length, to a tenth of a pixel.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func (d *drawing) text(x, y float64, class, anchor, text string) {
	d.add(`<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`, class, x, y, anchor, text)
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.add(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, x1, y1, x2, y2)
}

func (d *drawing) bar(class string, from, to, y float64) {
	d.add(`<rect class="%s" x="%s" y="%s" width="%s" height="22"/>`, class, from, y, to-from-1.5)
}

// circle and cross are the marks of requests that are admitted and refused.
func (d *drawing) circle(x, y float64) { d.add(`<circle class="yes" cx="%s" cy="%s" r="4.2"/>`, x, y) }

func (d *drawing) cross(x, y float64) {
	d.add(`<path class="no" d="M%s %sl7 7m0-7l-7 7"/>`, x-3.5, y-3.5)
}
