package simulate

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/svg"
)

// The place of a plot in its picture, in pixels.
const (
	plotLeft, plotRight = 64.0, svg.Width - 24
	plotTop, plotBottom = 64.0, 208.0
	plotHeight          = 244.0
)

// plot draws requests, limited requests and, as a dashed line, those that the current
// rules limit.
func (s *series) plot(title string, compared bool) template.HTML {
	d := svg.New(plotHeight, html.EscapeString(title))
	most := int64(1)
	for _, p := range s.points {
		most = max(most, p.requests)
	}
	at := func(i int) float64 {
		return plotLeft + (plotRight-plotLeft)*float64(i)/float64(max(1, len(s.points)-1))
	}
	line := func(of func(point) int64) string {
		var b strings.Builder
		for i, p := range s.points {
			fmt.Fprintf(&b, " %s,%s", svg.Px(at(i)), svg.Px(plotBottom-(plotBottom-plotTop)*float64(of(p))/float64(most)))
		}
		return b.String()[1:]
	}
	s.axes(d, most)
	requests, limited := func(p point) int64 { return p.requests }, func(p point) int64 { return p.limited }
	d.Add(`<polygon class="area" points="%s,%s %s %s,%[2]s"/>`, plotLeft, plotBottom, line(requests), at(len(s.points)-1))
	d.Add(`<polyline class="curve" points="%s"/>`, line(requests))
	d.Add(`<polygon class="above" points="%s,%s %s %s,%[2]s"/>`, plotLeft, plotBottom, line(limited), at(len(s.points)-1))
	d.Add(`<polyline class="no" points="%s"/>`, line(limited))
	if compared {
		d.Add(`<polyline class="limit" points="%s"/>`, line(func(p point) int64 { return p.current }))
	}
	legend(d, compared)
	return template.HTML(d.End()) //nolint:gosec // numbers, and a title that is escaped
}

// axes draws the scale of the requests and the times of the first, the middle and the last
// step.
func (s *series) axes(d *svg.Drawing, most int64) {
	d.Text(20, 52, "soft", "start", "requests in "+stepText(s.step))
	for _, part := range []int64{0, 1, 2} {
		y := plotBottom - (plotBottom-plotTop)*float64(part)/2
		d.Line("grid", plotLeft, y, plotRight, y)
		if label := most * part / 2; part != 1 || 2*label == most {
			d.Text(plotLeft-8, y+5, "soft", "end", thousands(label))
		}
	}
	layout := "15:04:05"
	end := s.start + s.step*int64(len(s.points))
	if end-s.start > 24*3600*second {
		layout = "2006-01-02 15:04"
	}
	for i, anchor := range []string{"start", "middle", "end"} {
		x := plotLeft + (plotRight-plotLeft)*float64(i)/2
		d.Text(x, plotBottom+20, "soft", anchor, time.UnixMicro(s.start+(end-s.step-s.start)*int64(i)/2).UTC().Format(layout))
	}
}

func legend(d *svg.Drawing, compared bool) {
	x := plotRight - 170
	if compared {
		x -= 155
		d.Add(`<path class="limit" d="M%s 47h24"/>`, x+170)
		d.Text(x+200, 52, "", "start", "by current rules")
	}
	d.Add(`<path class="curve" d="M%s 47h24"/>`, x)
	d.Text(x+30, 52, "", "start", "all")
	d.Add(`<path class="no" d="M%s 47h24"/>`, x+74)
	d.Text(x+104, 52, "", "start", "limited")
}

// stepText is the length of a step.
func stepText(micros int64) string {
	text := (time.Duration(micros) * time.Microsecond).String()
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}

// thousands is a number with commas.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
