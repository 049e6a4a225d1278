package strictjson

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A name that is there twice is found, with its path and position, whatever its spelling.
func TestObject_Duplicates(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                "",
		`{"a":{"b":1},"b":[{"a":1}]}`:       "",
		`{"a:":"b:\"c\":","b":"\\"}`:        "",
		`{"a":1,"a":2}`:                     "[a] 1:10",
		`{"a":1,"\u0061":2}`:                "[a] 1:15",
		"{\"a\":1,\n \"ä\":2, \"a\":2}":     "[a] 2:11",
		`{"r":[1,{"x":{}},{"y":1,"y":0}]}`:  "[r 2 y] 1:27",
		`{"r":[[],[{"y":{"z":1,"z":[]}}]]}`: "[r 1 0 y z] 1:25",
		`{"a":1,"a":{"b":1,"b":2}}`:         "[a] 1:10, [a b] 1:21",
		"{\"\xff\":1,\"\xfe\":2}":           "[\uFFFD] 1:10",
	} {
		tree, err := Object([]byte(text))
		var found *DuplicateError
		var got []string
		if errors.As(err, &found) {
			for _, d := range found.Names {
				got = append(got, fmt.Sprintf("%v %d:%d", d.Path, d.Line, d.Column))
			}
		}
		if tree == nil || strings.Join(got, ", ") != want || (err == nil) != (want == "") {
			t.Errorf("%s: %q (%v), want %q", text, got, err, want)
		}
		if check := Check([]byte(text)); (check == nil) != (err == nil) {
			t.Errorf("%s: Check returns %v", text, check)
		}
	}
}

// What is not one object is an error with its position.
func TestObject_Syntax(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "line 1, column 1: unexpected end of JSON input",
		"{\"a\":\n [1,":                 "line 2, column 5: unexpected end of JSON input",
		"{\n  \"a\": x}":                "line 2, column 8: invalid character 'x' looking for beginning of value",
		"[1]":                           "line 1, column 1: must be an object",
		"null":                          "line 1, column 1: must be an object, not null",
		"{} {}":                         "unexpected data after the JSON value",
		strings.Repeat(`{"a":`, 20_000): "exceeded max depth",
	} {
		_, err := Object([]byte(text))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}

// Many duplicate names take time in proportion, and are not all reported.
func TestObject_Many_NoRace(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"a":1`)
	for i := range 200_000 {
		fmt.Fprintf(&b, `,"n%d":1`, i)
	}
	b.WriteString(strings.Repeat(`,"a":1`, 100_000) + "}")
	began := time.Now()
	_, err := Object([]byte(b.String()))
	var found *DuplicateError
	if !errors.As(err, &found) || len(found.Names) != maxDuplicates {
		t.Fatalf("%v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
