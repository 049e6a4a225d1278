package mongorules

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// insertion is the document of a rule that has none.
func insertion(want projected, revision int64) bson.D {
	return append(slices.Clone(want.fields),
		bson.E{Key: revisionField, Value: revision}, bson.E{Key: checksumField, Value: want.sum})
}

// rewrite is the update that makes a document say what it should. It touches
// only the fields that say something else or show an API key, so that what
// others have added and how they spell things survives.
func rewrite(d document, want projected, revision int64) bson.D {
	set := bson.D{{Key: revisionField, Value: revision}, {Key: checksumField, Value: want.sum}}
	unset := bson.D{}
	remove := func(name string) {
		if _, err := d.raw.LookupErr(name); err == nil {
			unset = append(unset, bson.E{Key: name, Value: ""})
		}
	}
	fields, err := compare(d.rule, want.rule)
	readable := d.sum != "" && err == nil
	if !readable {
		remove("id") // it may say something else than _id
	}
	for _, group := range fieldGroups {
		if readable && fields.same(group...) && (!d.exposed || group[0] != "when") {
			continue
		}
		for _, name := range group {
			i := slices.IndexFunc(want.fields, func(e bson.E) bool { return e.Key == name })
			if i < 0 {
				remove(name)
				continue
			}
			set = append(set, bson.E{Key: name, Value: keepUnknown(name, d.raw.Lookup(name), want.fields[i].Value)})
		}
	}
	update := bson.D{{Key: "$set", Value: set}}
	if len(unset) > 0 {
		update = append(update, bson.E{Key: "$unset", Value: unset})
	}
	return update
}

// The names inside of when and of a band that have a meaning.
var (
	whenNames = []string{"hosts", "excludePaths", "headers", "attributes", "ips", "users", "apiKeys"}
	bandNames = []string{"label", "capacity", "refillTokens", "refillSeconds", "refill", "windowSeconds", "kind"}
)

// keepUnknown adds to a new value of a field what others have put into the old
// one. A band is the same if its label is, or without labels its position.
func keepUnknown(name string, old bson.RawValue, value any) any {
	switch name {
	case "when":
		var before bson.D
		if fields, ok := value.(bson.D); ok && old.Unmarshal(&before) == nil {
			return withUnknown(fields, before, whenNames)
		}
	case "bands":
		var before []bson.D
		list, ok := value.(bson.A)
		if !ok || old.Unmarshal(&before) != nil {
			break
		}
		out := make(bson.A, len(list))
		for i := range list {
			out[i] = list[i]
			fields, ok := list[i].(bson.D)
			if !ok {
				continue
			}
			if j := slices.IndexFunc(before, func(b bson.D) bool { return labelOf(b) == labelOf(fields) }); labelOf(fields) != nil && j >= 0 {
				out[i] = withUnknown(fields, before[j], bandNames)
			} else if labelOf(fields) == nil && i < len(before) && labelOf(before[i]) == nil {
				out[i] = withUnknown(fields, before[i], bandNames)
			}
		}
		return out
	}
	return value
}

func withUnknown(fields, before bson.D, known []string) bson.D {
	fields = slices.Clone(fields)
	for _, e := range before {
		if !slices.Contains(known, e.Key) {
			fields = append(fields, e)
		}
	}
	return fields
}

func labelOf(band bson.D) any {
	for _, e := range band {
		if s, ok := e.Value.(string); ok && e.Key == "label" && s != "" {
			return s
		}
	}
	return nil
}
