package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/rules"
)

// jsonFields parses JSON lines: it says which fields are the parts of a request.
type jsonFields []jsonField

type jsonField struct {
	part string
	// paths are where the value can be, with dots between names. The first that a line has
	// counts.
	paths []string
	set   func(e *entry, value string) error
}

// commonFields are where common servers and libraries write the parts of a request: nginx,
// Envoy, Caddy and others. A request line counts if there is no path.
var commonFields = jsonFields{
	{"time", []string{"time", "ts", "timestamp", "@timestamp", "start_time", "time_iso8601", "time_local"}, (*entry).setTime},
	{
		"ip", []string{"ip", "client_ip", "client.ip", "remote_addr", "remote_ip", "request.client_ip", "request.remote_ip"},
		(*entry).setIP,
	},
	{"method", []string{"method", "request_method", "request.method"}, text(func(e *entry) *string { return &e.req.Method })},
	{"path", []string{"path", "uri", "request_uri", "request.uri"}, text(func(e *entry) *string { return &e.req.Path })},
	{"host", []string{"host", "http_host", "authority", "request.host"}, text(func(e *entry) *string { return &e.req.Host })},
	{"user", []string{"user", "user_id", "remote_user"}, text(func(e *entry) *string { return &e.req.UserID })},
	{"apiKey", nil, text(func(e *entry) *string { return &e.req.APIKey })},
	{"request", []string{"request"}, func(e *entry, value string) error {
		if e.req.Path != "" {
			return nil
		}
		return e.setRequestLine(value)
	}},
	{"cost", nil, func(e *entry, value string) (err error) {
		e.req.Cost, err = parseCost(value)
		return err
	}},
}

// text sets a part that can have any value.
func text(part func(*entry) *string) func(*entry, string) error {
	return func(e *entry, value string) error {
		*part(e) = value
		return nil
	}
}

// Fields checks a mapping such as ip=client.ip,header.X-Plan=plan.
func Fields(mapping []string) error {
	_, err := newJSONFields(mapping)
	return err
}

// newJSONFields are the common fields, but for the parts that the mapping has.
func newJSONFields(mapping []string) (jsonFields, error) {
	fields := slices.Clone(commonFields)
	for _, text := range mapping {
		part, path, _ := strings.Cut(text, "=")
		if path == "" {
			return nil, fmt.Errorf("%q is not PART=FIELD, such as ip=client.ip", text)
		}
		if i := slices.IndexFunc(fields, func(f jsonField) bool { return f.part == part }); i >= 0 {
			fields[i].paths = []string{path}
			continue
		}
		set := namedPart(part)
		if set == nil {
			return nil, fmt.Errorf("%q is not a part of a request: use one of time, ip, method, path, host, user, apiKey, "+
				"request, cost, header.NAME, attr.NAME, cost.MEASURE", part)
		}
		fields = append(fields, jsonField{part, []string{path}, set})
	}
	return fields, nil
}

// namedPart sets header.NAME, attr.NAME or cost.MEASURE. It is nil for other parts.
func namedPart(part string) func(*entry, string) error {
	kind, name, _ := strings.Cut(part, ".")
	switch {
	case name == "":
		return nil
	case kind == "header":
		header := textproto.CanonicalMIMEHeaderKey(name)
		return func(e *entry, value string) error {
			e.setHeader(header, value)
			return nil
		}
	case kind == "attr":
		return func(e *entry, value string) error {
			put(&e.req.Attributes, name, value)
			return nil
		}
	case kind == "cost" && name != rules.MeasureRequests:
		return func(e *entry, value string) error {
			cost, err := parseCost(value)
			put(&e.req.Costs, name, cost)
			return err
		}
	}
	return nil
}

func (f jsonFields) parse(line string, e *entry) error {
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber() // times in nanoseconds have more digits than a float64
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return errJSON
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errJSON
	}
	for _, field := range f {
		for _, path := range field.paths {
			value := dash(valueAt(object, path))
			if value == "" {
				continue
			}
			if err := field.set(e, value); err != nil {
				return err
			}
			break
		}
	}
	switch {
	case e.at.IsZero():
		return errTime
	case e.req.Path == "":
		return errPath
	}
	return nil
}

// valueAt is the text of the value at a path, and empty for an object or a list. The path is
// a name, or leads into objects by its dots.
func valueAt(object map[string]any, path string) string {
	switch v := object[path].(type) {
	case string, json.Number, bool:
		return fmt.Sprint(v)
	}
	name, rest, _ := strings.Cut(path, ".")
	if inner, ok := object[name].(map[string]any); ok {
		return valueAt(inner, rest)
	}
	return ""
}
