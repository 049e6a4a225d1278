package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

// step is a command and what it prints.
type step struct{ typed, printed string }

// scene begins with an empty screen.
type scene []step

// In pixels, and in seconds.
const (
	lineHeight, charWidth, padding = 18, 7.83, 16
	perChar, afterCommand          = 0.035, 0.4
	perStep, atEnd                 = 1.0, 5.0
)

// The colours have a contrast of at least 4.5:1 on the background, which is the same on light
// and dark pages.
const style = `text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e5e7eb;white-space:pre}
.p{fill:#5eead4}.c32{fill:#86efac}.c33{fill:#fde047}.c31{fill:#fca5a5}
g{visibility:hidden;animation-duration:%.1fs;animation-iteration-count:infinite;animation-timing-function:step-end}
@media(prefers-reduced-motion:reduce){g{animation:none}.s{visibility:visible}}
`

// drawing is the lines with the times from which and until which they are shown.
type drawing struct {
	shown []shownLine
	now   float64
}

type shownLine struct {
	row         int
	text        string // marked up
	from, until float64
}

// draw returns an animation of the scenes, again and again.
func draw(scenes ...scene) []byte {
	d := new(drawing)
	d.now = 0.5
	still := 0 // the first scene is shown where animations are not
	for i, of := range scenes {
		d.play(of)
		if i == 0 {
			still = len(d.shown)
		}
	}
	return d.svg(still)
}

func (d *drawing) play(of scene) {
	first, row := len(d.shown), 0
	for i, step := range of {
		if step.typed != "" {
			row = d.typeLine(row, step.typed)
		}
		if step.printed != "" {
			for line := range strings.SplitSeq(step.printed, "\n") {
				d.show(row, markup(strings.TrimRight(line, "\r")))
				row++
			}
		}
		if i == len(of)-1 {
			d.now += atEnd
		} else {
			d.now += perStep
		}
	}
	d.end(first)
}

// end hides the lines from first on.
func (d *drawing) end(first int) {
	for i := first; i < len(d.shown); i++ {
		if d.shown[i].until == 0 {
			d.shown[i].until = d.now
		}
	}
}

func (d *drawing) show(row int, text string) {
	d.shown = append(d.shown, shownLine{row: row, text: text, from: d.now})
}

// typeLine types a command, three characters at a time.
func (d *drawing) typeLine(row int, command string) int {
	const prompt = `<tspan class="p">$ </tspan>`
	for n := 0; n < len(command); n += 3 {
		d.show(row, prompt+html.EscapeString(command[:n])+"▋")
		d.now += 3 * perChar
		d.end(len(d.shown) - 1)
	}
	d.show(row, prompt+html.EscapeString(command))
	d.now += afterCommand
	return row + 1
}

var escape = regexp.MustCompile("\x1b\\[([0-9;?]*)([A-Za-z])")

// markup returns a line with its colours. Other control sequences are left out.
func markup(line string) string {
	var out strings.Builder
	open := false
	for {
		at := escape.FindStringSubmatchIndex(line)
		if at == nil {
			break
		}
		out.WriteString(html.EscapeString(line[:at[0]]))
		if line[at[4]:at[5]] == "m" {
			if open {
				out.WriteString("</tspan>")
			}
			if open = line[at[2]:at[3]] != "0"; open {
				fmt.Fprintf(&out, `<tspan class="c%s">`, line[at[2]:at[3]])
			}
		}
		line = line[at[1]:]
	}
	out.WriteString(html.EscapeString(line))
	if open {
		out.WriteString("</tspan>")
	}
	return out.String()
}

// svg writes the lines. Lines that are shown at the same time are a group with an animation.
func (d *drawing) svg(still int) []byte {
	var groups, frames strings.Builder
	for i := 0; i < len(d.shown); {
		first, n := d.shown[i], i
		class := ""
		if i < still && first.until == d.shown[still-1].until {
			class = ` class="s"`
		}
		fmt.Fprintf(&groups, `<g%s style="animation-name:a%d">`, class, i)
		for ; i < len(d.shown) && d.shown[i].from == first.from && d.shown[i].until == first.until; i++ {
			if text := d.shown[i].text; text != "" {
				fmt.Fprintf(&groups, `<text x="%d" y="%d">%s</text>`, padding, padding+30+lineHeight*d.shown[i].row, text)
			}
		}
		groups.WriteString("</g>\n")
		fmt.Fprintf(&frames, "@keyframes a%d{0%%{visibility:hidden}%.2f%%{visibility:visible}%.2f%%{visibility:hidden}}\n",
			n, 100*first.from/d.now, 100*first.until/d.now)
	}
	width, height := 2*padding+columns*charWidth, 2*padding+24+rows*lineHeight
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img">
<title>A first decision and fluxgate simulate in a terminal</title>
<style>
%s%s</style><rect width="100%%" height="100%%" rx="8" fill="#1b1b1f" stroke="#3f3f46"/>
<g fill="#52525b" style="visibility:visible;animation:none">
<circle cx="20" cy="18" r="5"/><circle cx="38" cy="18" r="5"/><circle cx="56" cy="18" r="5"/></g>
%s</svg>
`, width, height, fmt.Sprintf(style, d.now), frames.String(), groups.String())
}
