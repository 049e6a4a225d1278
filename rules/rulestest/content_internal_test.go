package rulestest

import (
	"reflect"
	"testing"

	"github.com/fluxgate/fluxgate"
)

// The full rules have every field set.
func TestFullRules_EveryField(t *testing.T) {
	set := map[string]bool{}
	look := func(name string, v reflect.Value) {
		for i := range v.NumField() {
			field := name + "." + v.Type().Field(i).Name
			set[field] = set[field] || !v.Field(i).IsZero()
		}
	}
	for _, r := range full("id") {
		look("Rule", reflect.ValueOf(r))
		look("When", reflect.ValueOf(r.When))
		for _, b := range r.Bands {
			look("Band", reflect.ValueOf(b))
		}
	}
	for field, ok := range set {
		if !ok {
			t.Errorf("no rule has %s set", field)
		}
	}
	if _, err := fluxgate.NewRuleSet("id", full("id")...); err != nil {
		t.Error(err)
	}
}
