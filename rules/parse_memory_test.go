package rules_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// Documents whose trees are many times as large as their texts are refused.
func TestParse_Memory_NoRace(t *testing.T) {
	for name, text := range map[string]string{
		"rules":            `{"id":"a","rules":[` + strings.Repeat("{},", 5_000_000) + `{}]}`,
		"bands":            `{"id":"a","rules":[{"id":"b","bands":[` + strings.Repeat("{},", 900_000) + `{}]}]}`,
		"rules, not quite": `{"id":"a","rules":[` + strings.Repeat("{},", 900_000) + `{}]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := rules.Parse([]byte(text))
		runtime.ReadMemStats(&after)
		if err == nil || len(err.Error()) > 1<<10 {
			t.Errorf("%s: %v", name, err)
		}
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 400 {
			t.Errorf("%s: %d MiB for a text of %d", name, used, len(text)>>20)
		}
	}
	// Texts that only look like many values.
	_, err := rules.Parse([]byte(`{"id":"a","rules":[{"id":"r","bands":[{"capacity":1,"refill":"1s"}],"attributes":{"x":"` + strings.Repeat(`,[{\"`, 1_000_000) + `"}}]}`))
	var invalid *rules.ValidationError
	if err != nil && !errors.As(err, &invalid) {
		t.Error(err)
	}
}
