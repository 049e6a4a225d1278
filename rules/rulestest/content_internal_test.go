package rulestest

import (
	"reflect"
	"testing"
)

// The full rule set has every field set.
func TestFull_EveryField(t *testing.T) {
	set := map[string]bool{}
	look := func(name string, v reflect.Value) {
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				field := name + "." + f.Name
				set[field] = set[field] || !v.Field(i).IsZero()
			}
		}
	}
	for _, table := range costTables {
		for _, w := range table {
			look("Weights", reflect.ValueOf(w))
		}
	}
	full := (&fixture{TB: t}).full("id")
	for r := range full.Rules() {
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
}
