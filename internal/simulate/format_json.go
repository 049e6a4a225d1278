package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/internal/secret"
)

// jsonFields parses JSON lines by a mapping of fields.
type jsonFields struct{ fields []jsonField }

// jsonField says that the value at a path, with dots between its parts, is a part of the
// request.
type jsonField struct{ part, path string }

// defaultPaths are where common servers and libraries write the parts of a request: nginx,
// Envoy, Caddy and others. The first that a line has counts.
var defaultPaths = map[string][]string{
	"time":    {"time", "ts", "timestamp", "@timestamp", "start_time", "time_iso8601", "time_local"},
	"ip":      {"ip", "client_ip", "client.ip", "remote_addr", "remote_ip", "request.client_ip", "request.remote_ip"},
	"method":  {"method", "request_method", "request.method"},
	"path":    {"path", "uri", "request_uri", "request.uri"},
	"host":    {"host", "http_host", "authority", "request.host"},
	"user":    {"user", "user_id", "remote_user"},
	"status":  {"status", "response_code"},
	"request": {"request"},
}

// parts are those of a request that a field can be, without header.NAME, attr.NAME and
// cost.MEASURE.
var parts = []string{"time", "ip", "method", "path", "host", "user", "apiKey", "status", "request", "cost"}

// Fields checks a mapping such as ip=client.ip,header.X-Plan=plan.
func Fields(mapping []string) error {
	_, err := newJSONFields(mapping)
	return err
}

// newJSONFields adds the defaults of all parts that the mapping does not have.
func newJSONFields(mapping []string) (*jsonFields, error) {
	var fields []jsonField
	for _, text := range mapping {
		part, path, _ := strings.Cut(text, "=")
		f := jsonField{part, path}
		if path == "" {
			return nil, fmt.Errorf("%q is not PART=FIELD, such as ip=client.ip", text)
		}
		kind, name, named := strings.Cut(part, ".")
		switch {
		case !named && slices.Contains(parts, part):
		case kind == "header" && name != "":
			f.part = "header." + textproto.CanonicalMIMEHeaderKey(name)
		case (kind == "attr" || kind == "cost") && name != "":
		default:
			return nil, fmt.Errorf("%q is not a part of a request: use one of %s, header.NAME, attr.NAME, cost.MEASURE",
				part, strings.Join(parts, ", "))
		}
		fields = append(fields, f)
	}
	for part, paths := range defaultPaths {
		if slices.ContainsFunc(fields, func(f jsonField) bool { return f.part == part }) {
			continue
		}
		for _, path := range paths {
			fields = append(fields, jsonField{part, path})
		}
	}
	// Those of one part follow each other, and a request line follows the path.
	slices.SortStableFunc(fields, func(a, b jsonField) int { return strings.Compare(a.part, b.part) })
	return &jsonFields{fields}, nil
}

// hasSecrets reports whether lines may have secrets in plain.
func (f *jsonFields) hasSecrets() bool {
	return slices.ContainsFunc(f.fields, func(f jsonField) bool { return f.part == "apiKey" || secret.IsName(f.part) })
}

func (f *jsonFields) parse(line string, e *entry) error {
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber() // times in nanoseconds have more digits than a float64
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		return errJSON
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errJSON
	}
	last := "" // the part that was set last
	for _, field := range f.fields {
		if field.part == last {
			continue
		}
		value := valueAt(object, field.path)
		if value == "" {
			continue
		}
		last = field.part
		if err := e.setPart(field.part, value); err != nil {
			return err
		}
	}
	switch {
	case e.micros == 0:
		return errTime
	case e.req.Path == "":
		return errPath
	}
	return nil
}

// valueAt is the text of the value at a path, and empty for an object or a list. A dot of
// the path is one in a name, or leads into an object.
func valueAt(object map[string]any, path string) string {
	switch v := object[path].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if inner, ok := object[path[:i]].(map[string]any); ok {
			if value := valueAt(inner, path[i+1:]); value != "" {
				return value
			}
		}
	}
	return ""
}

// setPart sets a part of the request.
func (e *entry) setPart(part, value string) (err error) {
	switch part {
	case "time":
		var ok bool
		if e.micros, ok = anyTime(value); !ok {
			err = errTime
		}
	case "ip":
		err = e.setIP(value)
	case "method":
		e.req.Method = value
	case "path":
		err = e.setTarget(value)
	case "host":
		e.req.Host = dash(value)
	case "user":
		e.req.UserID = dash(value)
	case "apiKey":
		e.req.APIKey = dash(value)
	case "status":
		if value != "0" { // there was no response
			err = e.setStatus(value)
		}
	case "request":
		if e.req.Path == "" {
			err = e.setRequestLine(value)
		}
	case "cost":
		err = e.setCost("", value)
	default:
		switch kind, name, _ := strings.Cut(part, "."); kind {
		case "header":
			e.setHeader(name, dash(value))
		case "attr":
			put(&e.req.Attributes, name, value)
		default:
			err = e.setCost(name, value)
		}
	}
	return err
}
