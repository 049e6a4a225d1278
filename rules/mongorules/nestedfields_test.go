package mongorules

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
)

// A write replaces every condition of when. One that nestedFields does not have would
// stay as it was, beside the new one.
func TestNestedFields_EveryCondition(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[fluxgate.When]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !slices.Contains(nestedFields["when"], name) {
			t.Errorf("nestedFields has no when.%s", name)
		}
	}
}
