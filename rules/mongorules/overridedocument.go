package mongorules

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fluxgate/fluxgate/rules"
)

// overrideFields are the fields of a document that people edit.
var overrideFields = []string{"ruleSetId", "ruleId", "identity", "times", "bands", "until", "reason"}

// overrideDocument is the document of an override as read. Its id is that of the override when it
// was written.
type overrideDocument struct{ document }

// identifyOverride reads what FluxGate has written into a document.
func identifyOverride(raw bson.Raw) overrideDocument {
	d := overrideDocument{identify(raw)}
	d.id, _ = raw.Lookup("id").StringValueOK()
	d.sum = overrideSum(raw, d.id)
	return d
}

func (d *overrideDocument) key() bson.RawValue { return d.raw.Lookup("_id") }

// overrideSum returns a hash of the fields that people edit, and of the override's id.
func overrideSum(raw bson.Raw, id string) string {
	sum := sha256.New()
	for _, name := range overrideFields {
		value := raw.Lookup(name)
		_, _ = fmt.Fprint(sum, name, len(value.Value), value.Type, ":") // a hash never fails
		_, _ = sum.Write(value.Value)
	}
	return fmt.Sprintf("%x", sum.Sum([]byte(id)))
}

// decodeOverride reads the override of a document.
func (d *overrideDocument) decodeOverride() (o rules.Override, err error) {
	var fields bson.D
	if err := bson.Unmarshal(d.raw, &fields); err != nil {
		return o, err
	}
	tree := map[string]any{}
	for _, e := range fields {
		if slices.Contains(overrideFields, e.Key) {
			tree[e.Key] = d.decode(rules.Path{e.Key}, e.Value)
		}
	}
	if len(d.problems) > 0 {
		return o, &rules.ValidationError{Problems: d.problems[:1]}
	}
	o, err = rules.DecodeOverride(tree)
	o.Author = external
	return o, err
}

// plainKey reports whether a document has an API key in plain text.
func (d *overrideDocument) plainKey() bool {
	key, ok := d.raw.Lookup("identity", "apiKey").StringValueOK()
	return ok && !strings.HasPrefix(key, "sha256:")
}

// digested returns the write that replaces the API key by its digest.
func (d *overrideDocument) digested() mongo.WriteModel {
	key, _ := d.raw.Lookup("identity", "apiKey").StringValueOK()
	return mongo.NewUpdateOneModel().SetFilter(bson.M{"_id": d.key(), "identity.apiKey": key}).
		SetUpdate(bson.M{"$set": bson.M{"identity.apiKey": rules.DigestAPIKey(key)}})
}

// write returns the write that brings the document of an entry to the revision of a head.
func (e *overrideEntry) write(h *overrideHead) (mongo.WriteModel, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(e.Document)))
	decoder.UseNumber()
	fields, _ := encodeNext(decoder).(bson.D)
	set, unset := bson.M{}, bson.M{}
	for _, name := range overrideFields {
		unset[name] = ""
	}
	for _, f := range fields {
		if f.Key == "until" || f.Key == "at" {
			f.Value = encodeTime(fmt.Sprint(f.Value))
		}
		delete(unset, f.Key)
		set[f.Key] = f.Value
	}
	if e.Checksum != "" {
		for _, name := range overrideFields { // they stay: they may have been edited again
			delete(set, name)
		}
		set[checksumField] = e.Checksum
		filter := bson.M{"_id": e.Key, revisionField: nil}
		if !e.Was.IsZero() {
			filter[revisionField] = e.Was
		}
		return mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(bson.M{"$set": set}), nil
	}
	raw, err := bson.Marshal(set)
	set[checksumField] = overrideSum(raw, fmt.Sprint(set["id"]))
	if e.Replaces {
		return mongo.NewUpdateOneModel().SetFilter(h.former(e.Key)).SetUpdate(bson.M{"$set": set, "$unset": unset}), err
	}
	set["_id"] = e.Key
	return mongo.NewInsertOneModel().SetDocument(set), err
}

// encodeTime returns a time of JSON as a date, if that is exact: dates have milliseconds.
func encodeTime(text string) any {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || !at.Equal(at.Truncate(time.Millisecond)) {
		return text
	}
	return bson.NewDateTimeFromTime(at)
}
