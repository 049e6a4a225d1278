package main

import (
	"fmt"
	"slices"
)

// levelPicture shows how many tokens are left.
func levelPicture(title, numbers string, h *history) string {
	c := &chart{drawing: newDrawing(366, title, numbers), history: h, top: 106, bottom: 226, most: 10, marks: 324}
	c.axes("tokens left", 30, 0, 5, 10)
	c.curve(h.levels)
	c.retryAfter(8.3)
	c.busiestMinute()
	c.Text(20, c.bottom+32, "soft", "start", "requests")
	c.requests()
	return c.End()
}

// edgePicture shows how many requests were admitted in the minute before each moment.
func edgePicture(title string, quota, window *history) string {
	d := newDrawing(520, title, "capacity: 10")
	for i, h := range []*history{quota, window} {
		top := 126 + 218*float64(i)
		c := &chart{drawing: d, history: h, top: top, bottom: top + 70, most: 20, marks: top + 134}
		c.Text(20, top-36, "code", "start", []string{"kind: quota, period: minute", "kind: sliding-window, period: 1m"}[i])
		c.axes("admitted in the last 60 s", 30, 0, 10, 20)
		var minute []level
		for at := 0.0; at <= c.length; at += step {
			minute = stepTo(minute, at, float64(h.admitted(at+step-60)))
		}
		c.curve(minute)
		most := slices.MaxFunc(minute, func(a, b level) int { return int(a.left - b.left) })
		c.Text(c.x(most.at)+54, c.y(most.left)-6, "", "start", fmt.Sprintf("%.0f admitted in 60 s", most.left))
		c.Text(20, c.bottom+32, "soft", "start", "requests")
		c.requests()
	}
	return d.End()
}

// slotsPicture shows the free slots, and the requests that hold them.
func slotsPicture(title, numbers string, h *history) string {
	c := &chart{drawing: newDrawing(348, title, numbers), history: h, top: 106, bottom: 181, most: 3, marks: 306}
	c.axes("free slots", 5, 0, 1, 2, 3)
	c.curve(h.levels)
	c.retryAfter(2.3)
	free := make([]float64, h.band.Capacity)
	for slot := range free {
		c.Text(left-8, 215+30*float64(slot), "soft", "end", fmt.Sprint("slot ", slot+1))
	}
	for _, a := range h.answers {
		if !a.Allowed {
			continue
		}
		slot := slices.IndexFunc(free, func(until float64) bool { return until <= a.at })
		y, ends := 199+30*float64(slot), a.at+a.takes
		free[slot] = ends
		c.Bar("yes", c.x(a.at), c.x(ends), y)
		for _, at := range a.renewed {
			c.Line("tick", c.x(at), y, c.x(at), y+22)
			c.Text(c.x(at)+6, y+16, "inside", "start", "renewed")
		}
		if a.killed {
			free[slot] = a.at + h.band.Hold.Seconds()
			c.Text(c.x(ends)-6, y+16, "inside", "end", "killed")
			c.Bar("lost", c.x(ends), c.x(free[slot]), y)
			c.Text(c.x(ends)+8, y+16, "plain", "start", "lost until hold ends")
		}
	}
	c.requests()
	return c.End()
}
