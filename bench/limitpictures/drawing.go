package main

import "github.com/fluxgate/fluxgate/bench/svg"

// Charts are between left and right, in pixels.
const left, right = 52.0, 700.0

// drawing is a picture with marks of requests.
type drawing struct{ *svg.Drawing }

// newDrawing begins a picture with its title, the numbers of the limit and a legend.
func newDrawing(height float64, title, numbers string) *drawing {
	d := &drawing{svg.New(height, title)}
	d.Text(20, 54, "code", "start", numbers)
	d.circle(560, 49)
	d.Text(570, 54, "", "start", "admitted")
	d.cross(642, 49)
	d.Text(652, 54, "", "start", "refused")
	return d
}

// circle and cross are the marks of requests that are admitted and refused.
func (d *drawing) circle(x, y float64) { d.Add(`<circle class="yes" cx="%s" cy="%s" r="4.2"/>`, x, y) }

func (d *drawing) cross(x, y float64) {
	d.Add(`<path class="no" d="M%s %sl7 7m0-7l-7 7"/>`, x-3.5, y-3.5)
}
