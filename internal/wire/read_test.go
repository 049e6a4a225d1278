package wire_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/wire"
)

// written returns a line as a server writes it.
func written(index int, decision []byte) string {
	return `{"index":` + strconv.Itoa(index) + `,"decision":` + string(decision) + `}`
}

// used is a line that was read before.
var used = wire.Line{Index: 7, Entry: wire.Entry{Decision: wire.Decision{Rule: "former", Owed: 1, Bands: make([]wire.Band, 1)}, Error: "former", Status: 500}}

// agree fails the test unless a line is read as encoding/json reads it.
func agree(t *testing.T, text string) {
	t.Helper()
	got, want := used, wire.Line{}
	err, wantErr := wire.ReadLine([]byte(text), &got), json.Unmarshal([]byte(text), &want)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%s: error %v, encoding/json has %v", text, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nis read as %+v\nand by encoding/json as %+v", text, got, want)
	}
}

// What a server writes is read as encoding/json reads it, also when a byte is
// missing or another.
func TestReadLine_Written(t *testing.T) {
	for i, d := range decisions(t) {
		text := written(i, wire.Append(nil, &d, "token"))
		agree(t, text)
		if i >= 10 {
			continue
		}
		for at := range text {
			agree(t, text[:at]+text[at+1:])
			for _, other := range `"\,.-+019eé ` {
				agree(t, text[:at]+string(other)+text[at+1:])
			}
		}
	}
}

// What a server writes is read without encoding/json, which allocates more often.
func TestReadLine_Allocations(t *testing.T) {
	for i, d := range decisions(t)[:20] {
		text := []byte(written(i, wire.Append(nil, &d, "token")))
		var line wire.Line
		bands := 0
		for range d.Bands() {
			bands++
		}
		if n := testing.AllocsPerRun(10, func() { _ = wire.ReadLine(text, &line) }); n > float64(1+bands) {
			t.Errorf("%v allocations for %s", n, text)
		}
	}
}

// lines have something that the reader must leave to encoding/json, or must not miss.
var lines = []string{
	`{"index":1,"decision":{"allowed":true,"reason":"ok","rule":"r","band":"b","limit":5,"remaining":4,"owed":1,"resetAfterMs":0.5,"retryAfterMs":12.25,"waitMs":1,"timeMs":1790000000000.125,"source":"store","degraded":true,"bands":[{"rule":"r","label":"l","shadow":true,"measure":"m","cost":2,"status":"ok","source":"store","limit":1,"remaining":1,"owed":2,"waitMs":1,"fullAfterMs":2.5,"capacity":1,"refillTokens":1,"refillMs":0.5},{"rule":"q","status":"ok","source":"store","limit":1,"remaining":1,"capacity":1,"kind":"quota","period":"day","timezone":"Asia/Kolkata"},{"rule":"c","status":"ok","source":"store","limit":1,"remaining":1,"capacity":1,"kind":"concurrency","holdMs":30000}],"receipt":"token"}}`,
	`{"index":0,"decision":{"error":"no","status":400}}`,
	`{"index":0,"decision":{"allowed":false,"reason":"a\"b\\\u0041ü"}}`,
	`{"index":0,"decision":{"allowed":true,"reason":"ok"},"index":3}`,
	`{"index":0,"decision":{"allowed":true,"reason":"ok","bands":[],"bands":[{"rule":"r"}]}}`,
	`{"index":00,"decision":{"allowed":true,"reason":"ok"}}`, `{"index":-0,"decision":{"allowed":true,"reason":"ok"}}`,
	`{"index":9223372036854775808,"decision":{"allowed":true,"reason":"ok"}}`, `{"index":1e1,"decision":{"allowed":true,"reason":"ok"}}`,
	`{"index":0,"decision":{"allowed":true,"reason":"ok","waitMs":1e3}}`, `{"index":0,"decision":{"allowed":true,"reason":"ok","waitMs":1.}}`,
	`{"index":0,"decision":{"allowed":true,"reason":"ok","waitMs":99999999999999}}`, `{"index":0,"decision":{"allowed":true,"reason":"ok","waitMs":null}}`,
	`{"index":0,"decision":null}`, `{"index":0,"decision":{"ALLOWED":true,"unknown":[1,{}]}}`, ` {"index": 0} `, `{"index":0}x`, `null`, `[]`, ``, `{`,
	strings.Repeat(`[`, 20_000),
}

func TestReadLine_OtherShapes(t *testing.T) {
	for _, text := range lines {
		agree(t, text)
	}
}

func FuzzReadLine(f *testing.F) {
	for _, text := range lines {
		f.Add(text)
	}
	f.Fuzz(agree)
}
