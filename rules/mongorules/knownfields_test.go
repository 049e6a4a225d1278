package mongorules

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// A write replaces every known field. One that the lists do not have would not be read,
// and would stay as it was.
func TestKnownFields_Complete(t *testing.T) {
	for _, c := range []struct {
		in    string
		of    reflect.Type
		known []string
	}{
		{"a rule", reflect.TypeFor[rules.RuleDocument](), knownFields},
		{"when", reflect.TypeFor[rules.When](), nestedFields["when"]},
		{"bands", reflect.TypeFor[rules.BandDocument](), nestedFields["bands"]},
	} {
		for _, f := range reflect.VisibleFields(c.of) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !slices.Contains(c.known, name) {
				t.Errorf("the known fields of %s have no %s", c.in, name)
			}
		}
	}
}
