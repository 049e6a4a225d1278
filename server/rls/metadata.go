package rls

import (
	"maps"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fluxgate/fluxgate/rules/envoyrules"
)

// passedMetadata is the metadata of the limits of descriptors that passed, as a Struct of the
// protocol, or nil. Of a field that several limits have the first counts, and objects are
// merged, as in envoyproxy/ratelimit.
func (c *call) passedMetadata() []byte {
	var all map[string]any
	for i := range c.decisions {
		if !c.decisions[i].Allowed {
			continue
		}
		for r := range c.decisions[i].Evaluated(&c.reqs[i]) {
			if m, ok := r.Rule.Attributes[envoyrules.AttributeMetadata].(map[string]any); ok {
				all = merge(all, m)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	fields, err := structpb.NewStruct(all)
	if err != nil {
		return nil
	}
	encoded, err := proto.Marshal(fields)
	if err != nil {
		return nil
	}
	return encoded
}

// merge adds the fields of an object that another has not.
func merge(to, from map[string]any) map[string]any {
	merged := map[string]any{}
	maps.Copy(merged, to)
	for key, value := range from {
		known, exists := merged[key]
		a, inner := known.(map[string]any)
		b, outer := value.(map[string]any)
		switch {
		case !exists:
			merged[key] = value
		case inner && outer:
			merged[key] = merge(a, b)
		}
	}
	return merged
}

// appendStruct appends a field whose value is an encoded Struct.
func appendStruct(b []byte, key string, encoded []byte) []byte {
	return appendField(b, key, func(b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), encoded)
	})
}
