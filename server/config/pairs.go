package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// setPairs gives a key the names and texts that stand in a file.
func (e *entry) setPairs(v reflect.Value, n *yamltree.Node, wrong note) {
	pairs := map[string]string{}
	for _, f := range n.Fields {
		text, ok := f.Value.Value.(string)
		if f.Value.Kind != yamltree.Scalar || !ok {
			wrong(placed(f), "."+showName(f.Name), "must be a text: write it in quotes")
			continue
		}
		pairs[f.Name] = text
	}
	e.setMap(v, pairs, func(message string) { wrong(n, "", message) })
}

// setPairsText gives a key names and texts as name=text, with commas.
func (e *entry) setPairsText(v reflect.Value, s string, wrong note) {
	pairs := map[string]string{}
	for i, pair := range strings.Split(s, ",") {
		if strings.TrimSpace(s) == "" {
			break
		}
		name, text, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			wrong(nil, fmt.Sprintf("[%d]", i), "must have the form name=text")
			continue
		}
		pairs[name] = strings.TrimSpace(text)
	}
	e.setMap(v, pairs, func(message string) { wrong(nil, "", message) })
}

// setMap gives a key its names and texts.
func (e *entry) setMap(v reflect.Value, pairs map[string]string, refuse func(message string)) {
	if len(pairs) > maxList {
		refuse(fmt.Sprintf("can have %d entries", maxList))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		for _, s := range []string{name, pairs[name]} {
			e.setWord(reflect.New(reflect.TypeFor[string]()).Elem(), s, refuse)
		}
	}
	v.Set(reflect.ValueOf(pairs))
}

// flowPairs is names and texts as YAML, in one line.
func flowPairs(pairs map[string]any) string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		fields = append(fields, quoted(name)+": "+quoted(fmt.Sprint(pairs[name])))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
