package envoyrules

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// reader converts a YAML document to a [Domain].
type reader struct{ findings }

// keys are the keys of all objects. envoyproxy/ratelimit ignores one of them in another
// object than its own, and refuses others.
var keys = map[string]bool{
	"domain": true, "key": true, "value": true, "descriptors": true, "rate_limit": true, "unit": true, "requests_per_unit": true,
	"unlimited": true, "shadow_mode": true, "quota_mode": true, "name": true, "replaces": true, "detailed_metric": true,
	"value_to_metric": true, "share_threshold": true, "metadata": true,
}

// fields are the keys of an object, with functions that read their values.
type fields map[string]func(n *yamltree.Node, place string)

func (r *reader) domain(root *yamltree.Node) *Domain {
	d := &Domain{}
	r.object(root, "", fields{"domain": r.string(&d.Domain), "descriptors": r.descriptors(&d.Descriptors)})
	return d
}

func (r *reader) descriptors(to *[]Descriptor) func(*yamltree.Node, string) {
	return func(n *yamltree.Node, place string) {
		r.list(n, place, func(n *yamltree.Node, place string) {
			var d Descriptor
			r.object(n, place, fields{
				"key": r.string(&d.Key), "value": r.string(&d.Value),
				"rate_limit":  r.rateLimit(&d.RateLimit),
				"descriptors": r.descriptors(&d.Descriptors),
				"shadow_mode": r.bool(&d.ShadowMode), "quota_mode": r.bool(&d.QuotaMode), "share_threshold": r.bool(&d.ShareThreshold),
				"detailed_metric": r.bool(&d.DetailedMetric), "value_to_metric": r.bool(&d.ValueToMetric),
				"metadata": r.metadata(&d.Metadata),
			})
			*to = append(*to, d)
		})
	}
}

func (r *reader) rateLimit(to **RateLimit) func(*yamltree.Node, string) {
	return func(n *yamltree.Node, place string) {
		if n.IsNull() {
			return
		}
		limit := &RateLimit{}
		*to = limit
		r.object(n, place, fields{
			"unit": r.string(&limit.Unit), "requests_per_unit": r.uint32(&limit.RequestsPerUnit),
			"unlimited": r.bool(&limit.Unlimited), "name": r.string(&limit.Name),
			"replaces": func(n *yamltree.Node, place string) {
				r.list(n, place, func(n *yamltree.Node, place string) {
					name := ""
					r.object(n, place, fields{"name": r.string(&name)})
					limit.Replaces = append(limit.Replaces, name)
				})
			},
		})
		if !limit.Unlimited && n.Get("requests_per_unit") == nil {
			r.note(place, "has no requests_per_unit: all requests are rejected, as in envoyproxy/ratelimit")
		}
	}
}

func (r *reader) metadata(to *map[string]any) func(*yamltree.Node, string) {
	return func(n *yamltree.Node, place string) {
		switch {
		case n.IsNull():
		case n.Kind != yamltree.Object:
			r.refuse(place, "must be an object")
		default:
			*to = n.Map()
		}
	}
}

// object reads the fields of an object.
func (r *reader) object(n *yamltree.Node, place string, known fields) {
	if n.Kind != yamltree.Object {
		r.refuse(place, "must be an object")
		return
	}
	for _, f := range n.Fields {
		at := f.Name
		if place != "" {
			at = place + "." + f.Name
		}
		read, ok := known[f.Name]
		switch {
		case ok:
			read(f.Value, at)
		case keys[f.Name]:
			r.note(at, "has no effect here, as in envoyproxy/ratelimit")
		default:
			r.refuse(at, "unknown key")
		}
	}
}

func (r *reader) list(n *yamltree.Node, place string, item func(n *yamltree.Node, place string)) {
	if n.Kind != yamltree.List && !n.IsNull() {
		r.refuse(place, "must be a list")
	}
	for i, n := range n.Items {
		item(n, fmt.Sprintf("%s[%d]", place, i))
	}
}

// string reads a string. Numbers, true and false are strings too.
func (r *reader) string(to *string) func(*yamltree.Node, string) {
	return func(n *yamltree.Node, place string) {
		switch v := n.Value.(type) {
		case string:
			*to = v
		case json.Number:
			*to = v.String()
		case bool:
			*to = strconv.FormatBool(v)
		default:
			if !n.IsNull() {
				r.refuse(place, "must be a string")
			}
		}
	}
}

func (r *reader) bool(to *bool) func(*yamltree.Node, string) {
	return func(n *yamltree.Node, place string) {
		v, ok := n.Value.(bool)
		if *to = v; !ok && !n.IsNull() {
			r.refuse(place, "must be true or false")
		}
	}
}

func (r *reader) uint32(to *uint32) func(*yamltree.Node, string) {
	return func(n *yamltree.Node, place string) {
		number, _ := n.Value.(json.Number)
		v, err := strconv.ParseUint(number.String(), 10, 32)
		if *to = uint32(v); err != nil && !n.IsNull() {
			r.refuse(place, "must be an integer from 0 to 4294967295")
		}
	}
}
