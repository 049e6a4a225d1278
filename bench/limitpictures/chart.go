package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/bench/svg"
)

// chart is a curve over time above a row of requests.
type chart struct {
	*drawing
	*history
	top, bottom, most float64 // of the curve: its place, and the value at the top
	marks             float64 // the lowest marks of requests
}

func (c *chart) x(at float64) float64 { return left + (right-left)*at/c.length }

func (c *chart) y(value float64) float64 { return c.bottom - (c.bottom-c.top)*value/c.most }

// axes draws the moments below, the values at the side, the capacity and the ends of
// periods.
func (c *chart) axes(name string, every float64, values ...float64) {
	c.Text(20, c.top-14, "soft", "start", name)
	end := c.marks + 8
	for at := 0.0; at <= c.length; at += every {
		c.Line("grid", c.x(at), c.top, c.x(at), end)
		c.Text(c.x(at), end+17, "soft", "middle", fmt.Sprintf("%d:%02d", int(at)/60, int(at)%60))
	}
	c.Line("grid", left, end, right, end)
	c.Line("grid", left, c.bottom, right, c.bottom)
	for _, v := range values {
		c.Text(left-8, c.y(v)+5, "soft", "end", svg.Px(v))
	}
	limit := c.y(float64(c.band.Capacity))
	c.Line("limit", left, limit, right, limit)
	if limit > c.top {
		c.Text(left+6, limit-6, "", "start", "capacity")
	} else {
		c.Text(right, limit-6, "", "end", "capacity")
	}
	for at := 60.0; c.band.Period != "" && at < c.length; at += 60 {
		c.Line("edge", c.x(at), c.top-18, c.x(at), end)
		c.Text(c.x(at)+6, c.top-6, "", "start", "period ends")
	}
}

// curve draws values over time. What is above the capacity is marked.
func (c *chart) curve(values []level) {
	var kept []level
	for _, v := range values {
		if n := len(kept); n > 1 && straight(kept[n-2], kept[n-1], v) {
			kept = kept[:n-1]
		}
		kept = append(kept, v)
	}
	points := func(least, most float64) string {
		var b strings.Builder
		for _, v := range kept {
			fmt.Fprintf(&b, " %s,%s", svg.Px(c.x(v.at)), svg.Px(c.y(min(max(v.left, least), most))))
		}
		return b.String()[1:]
	}
	limit := float64(c.band.Capacity)
	c.Add(`<polygon class="area" points="%s,%s %s %s,%[2]s"/>`, left, c.bottom, points(0, limit), right)
	c.Add(`<polygon class="above" points="%s"/>`, points(limit, c.most))
	c.Add(`<polyline class="curve" points="%s"/>`, points(0, c.most))
}

// straight reports whether b adds nothing to a curve from a to c.
func straight(a, b, c level) bool {
	if a == b || b == c || a.at == c.at {
		return a == b || b == c
	}
	return math.Abs(a.left+(c.left-a.left)*(b.at-a.at)/(c.at-a.at)-b.left) < 1e-6
}

// requests draws those of each moment as a column of marks.
func (c *chart) requests() {
	y := c.marks
	for i, a := range c.answers {
		if y -= 10; i == 0 || a.at != c.answers[i-1].at {
			y = c.marks
		}
		if a.Allowed {
			c.circle(c.x(a.at), y)
		} else {
			c.cross(c.x(a.at), y)
		}
	}
}

// retryAfter shows for how long the first refused request would have to wait.
func (c *chart) retryAfter(value float64) {
	a := c.answers[slices.IndexFunc(c.answers, func(a answer) bool { return !a.Allowed })]
	from, to, y := c.x(a.at), c.x(a.at+a.RetryAfter.Seconds()), c.y(value)
	c.Line("no dotted", from, y, from, c.bottom)
	c.Add(`<path class="no" d="M%s %sH%sm-5-4l5 4l-5 4"/>`, from, y, to)
	c.Text(from-6, y+5, "", "end", fmt.Sprintf("Retry-After: %.0f s", math.Ceil(a.RetryAfter.Seconds())))
}

// busiestMinute shows the minute in which most requests were admitted.
func (c *chart) busiestMinute() {
	from, to := c.x(c.busiest()), c.x(c.busiest()+60)
	c.Add(`<path class="span" d="M%s %sv8m0-4H%sm0-4v8"/>`, from, c.bottom+10, to)
	c.Text((from+to)/2, c.bottom+32, "", "middle", fmt.Sprintf("most in 60 s: %d admitted", c.admitted(c.busiest())))
}
