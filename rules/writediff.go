package rules

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/fluxgate/fluxgate/internal/amount"
	"github.com/fluxgate/fluxgate/internal/printable"
)

// maxShown is how many characters of a value are printed.
const maxShown = 1_000

// WriteDiff prints a diff: a line for each rule, and below it the fields that
// differ, or all fields of an added rule. Long values are truncated.
//
// paint, if not nil, adds the color of a kind to a text: the line of a rule, or
// the value of a field before or after. The output is printable, whatever the
// diff contains.
func WriteDiff(w io.Writer, diffs []RuleDiff, paint func(kind DiffKind, s string) string) error {
	if paint == nil {
		paint = func(_ DiffKind, s string) string { return s }
	}
	out := bufio.NewWriter(w)
	for _, d := range diffs {
		line := cmp.Or(signs[d.Change], "~") + " " + shown([]byte(d.Rule))
		_, _ = fmt.Fprintln(out, paint(d.Change, line)) // Flush has the error
		if d.Change == DiffRemoved {
			continue
		}
		for _, f := range d.Fields {
			before, after := "", ""
			if f.Before != nil {
				before = paint(DiffRemoved, value(written(f.Path, f.Before, d.Measure)))
			}
			if f.After != nil {
				after = paint(DiffAdded, value(written(f.Path, f.After, d.Measure)))
			}
			_, _ = fmt.Fprintf(out, "    %s: %s\n", shown([]byte(f.Path)), change(d.Change, f.Path, before, after))
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing a diff: %w", err)
	}
	return nil
}

var signs = map[DiffKind]string{DiffAdded: "+", DiffRemoved: "-"}

// change returns both sides of a field, or the only one that exists.
func change(kind DiffKind, path, before, after string) string {
	if kind == DiffAdded || strings.HasSuffix(path, "[+]") || strings.HasSuffix(path, "[-]") {
		return before + after
	}
	const unset = "unset" // not JSON, so not a value
	return cmp.Or(before, unset) + " → " + cmp.Or(after, unset)
}

// written returns the value of a field with money as rule files have it, such as "500 USD".
func written(path string, v json.RawMessage, measure string) json.RawMessage {
	const capacity, refill = "capacity", "refillTokens"
	var band map[string]json.RawMessage
	money := func(number json.RawMessage) json.RawMessage {
		n, ok := wholeNumber(json.Number(number))
		if text := amount.Written(n, measure); ok && text != "" {
			return raw(text)
		}
		return number
	}
	switch {
	case !strings.HasPrefix(path, "bands[") || !amount.IsMoney(measure):
	case strings.HasSuffix(path, "."+capacity), strings.HasSuffix(path, "."+refill):
		return money(v)
	case json.Unmarshal(v, &band) == nil:
		for _, name := range []string{capacity, refill} {
			if band[name] != nil {
				band[name] = money(band[name])
			}
		}
		return raw(band)
	}
	return v
}

// value returns JSON on one line.
func value(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return shown(v)
	}
	return shown(b.Bytes())
}

// shown returns a printable text of bounded length.
func shown(text []byte) string {
	runes := []rune(string(text))
	if len(runes) <= maxShown {
		return printable.JSON(text, "")
	}
	return fmt.Sprintf("%s… and %d characters more", printable.JSON([]byte(string(runes[:maxShown])), ""), len(runes)-maxShown)
}
