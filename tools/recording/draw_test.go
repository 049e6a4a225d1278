package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// What a program prints is text of the drawing with its colours, and nothing else.
func TestDraw(t *testing.T) {
	text := string(draw(scene{{typed: "echo <&", printed: "\x1b[32mallowed\x1b[0m <b>\r\n\x1b[2Kleft"}}, scene{{printed: "one"}, {printed: "two"}}))
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`<tspan class="c32">allowed</tspan> &lt;b&gt;</text>`, `>left</text>`, "echo &lt;&amp;</text>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\r") {
		t.Error("control characters are left")
	}
}

// All lines of a scene stay until it ends.
func TestDraw_Times(t *testing.T) {
	d := new(drawing)
	d.play(scene{{printed: "one"}, {printed: "two"}})
	if one, two := d.shown[0], d.shown[1]; two.from-one.from != perStep || one.until != d.now || two.until != d.now || two.until-two.from != atEnd {
		t.Errorf("%+v", d.shown)
	}
}
