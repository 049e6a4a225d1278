package rules_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// A revision that is a hash is short in text. JSON has the number.
func TestShownRevision(t *testing.T) {
	for revision, want := range map[int64]string{0: "0", 1: "1", 1<<32 - 1: "4294967295", 1 << 32: "00010000", 275265679929313: "fa5a4912", 1<<48 - 1: "ffffffff"} {
		shown := rules.ShownRevision(revision)
		if got := fmt.Sprint(shown); got != want {
			t.Errorf("%d is shown as %s, want %s", revision, got, want)
		}
		var text, json bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).Info("loaded", "revision", shown)
		slog.New(slog.NewJSONHandler(&json, nil)).Info("loaded", "revision", shown)
		if !strings.Contains(text.String(), "revision="+want) || !strings.Contains(json.String(), fmt.Sprintf(`"revision":%d`, revision)) {
			t.Errorf("%d is logged as %s%s", revision, text.String(), json.String())
		}
	}
}
