// Package svg draws the pictures of the documentation. They follow the colour scheme of
// the reader.
package svg

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Width is that of a picture, in pixels.
const Width = 720.0

// style has colours that differ for any colour vision. The background is
// part of the picture, because a page may be dark where the picture is not.
const style = `<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; ` +
	`paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round; }
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

// Drawing is an SVG document. Its methods write one element each, with a class of the
// style.
type Drawing struct{ strings.Builder }

// New begins a picture with its title.
func New(height float64, title string) *Drawing {
	d := &Drawing{}
	d.Add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%[1]s" height="%[2]s" role="img">`, Width, height)
	d.Add("<title>%s</title>\n%s", title, style)
	d.Add(`<rect class="paper" x="0.5" y="0.5" width="%s" height="%s" rx="8"/>`, Width-1, height-1)
	d.Text(20, 29, "title", "start", title)
	return d
}

// End returns the document.
func (d *Drawing) End() string { return d.String() + "</svg>\n" }

// Add writes a line. Its numbers are lengths.
func (d *Drawing) Add(format string, values ...any) {
	for i, v := range values {
		if v, ok := v.(float64); ok {
			values[i] = Px(v)
		}
	}
	fmt.Fprintf(&d.Builder, format+"\n", values...)
}

// Px is a length, to a tenth of a pixel.
func Px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// Text writes at a point, which is the anchor of the text: start, middle or end.
func (d *Drawing) Text(x, y float64, class, anchor, text string) {
	d.Add(`<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`, class, x, y, anchor, text)
}

// Line draws a line between two points.
func (d *Drawing) Line(class string, x1, y1, x2, y2 float64) {
	d.Add(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, x1, y1, x2, y2)
}

// Bar draws a horizontal bar below y.
func (d *Drawing) Bar(class string, from, to, y float64) {
	d.Add(`<rect class="%s" x="%s" y="%s" width="%s" height="22"/>`, class, from, y, to-from-1.5)
}
