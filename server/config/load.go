package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/tlsfiles"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// FileVariable names the file to read if the command line names none.
const FileVariable = envPrefix + "CONFIG"

// Sources are the sources of a configuration. Each overrides the ones before it.
type Sources struct {
	// File is a YAML or JSON file. Empty means the one that the variable
	// FLUXGATE_CONFIG names, or none.
	File string
	// Environ are environment variables, as os.Environ returns them.
	Environ []string
	// Set are assignments of the command line, such as redis.uri=redis://….
	// The last assignment of a key applies.
	Set []string
}

// Load reads a configuration over the defaults. If anything cannot be read, the
// error is an [*Error] with all problems. [Config.Check] then checks the values
// together.
func Load(from Sources) (*Config, error) {
	environ := variables(from.Environ)
	from.File = cmp.Or(from.File, environ[FileVariable])
	var data []byte
	if from.File != "" {
		var err error
		if data, err = ReadFile(from.File); err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
	}
	return load(from.File, data, environ, from.Set)
}

func load(name string, data []byte, environ map[string]string, set []string) (*Config, error) {
	c := Defaults()
	l := loader{decoder: newDecoder(&yamltree.File{}), config: &c}
	if name != "" {
		l.readFile(name, data)
	}
	l.environ(environ)
	for i, assignment := range set {
		l.assign(i, assignment)
	}
	if err := errorOf(&l.found); err != nil {
		return nil, err
	}
	c.from = l.origin
	if database, err := parseMongo(c.Mongo.URI); err == nil && database != "" && !c.isSet("mongo.database") {
		c.Mongo.Database = database
	}
	return &c, nil
}

// ReadFile reads a file of at most 1 MiB.
func ReadFile(name string) ([]byte, error) { return tlsfiles.ReadFile(name) }

// readDocument reads a file with one document.
func (d *decoder) readDocument(name string, data []byte, holds string) *yamltree.Node {
	var flaws []yamltree.Flaw
	d.file, flaws = yamltree.Read(name, data)
	for _, f := range flaws {
		d.refuse(f.At, "", f.Message)
	}
	switch {
	case len(flaws) > 0:
	case len(d.file.Documents) != 1:
		d.refuse(yamltree.Position{}, "", "must hold one document with "+holds)
	default:
		return d.file.Documents[0]
	}
	return nil
}

// loader applies the sources to a configuration, one after the other.
type loader struct {
	decoder
	config *Config
}

// readFile reads the file, whose values are below the key fluxgate.
func (l *loader) readFile(name string, data []byte) {
	const holds = "the key fluxgate and the configuration below it"
	document := l.readDocument(name, data, holds)
	if document == nil {
		return
	}
	if document.Get("fluxgate") == nil {
		l.refuse(yamltree.Position{}, "", "must hold one document with "+holds)
	}
	for _, f := range document.Fields {
		if f.Name != "fluxgate" {
			l.refuse(f.At, showName(f.Name), "must be below the key fluxgate")
		} else if !f.Value.IsNull() {
			l.group(root(), reflect.ValueOf(l.config).Elem(), f.Value, "")
		}
	}
}

// assign takes one assignment of the command line.
func (l *loader) assign(i int, assignment string) {
	path, value, ok := strings.Cut(assignment, "=")
	path = strings.TrimPrefix(path, "fluxgate.")
	if !ok {
		l.refuseSource(fmt.Sprintf("--set number %d", i+1), "must have the form key=value, such as redis.timeout=50ms")
		return
	}
	if s := keyOf(path); s != nil {
		l.override(s, "--set "+path, value)
	} else {
		l.refuseSource("--set "+showName(path), unknown(path, paths()))
	}
}

func (l *loader) refuseSource(source, message string) {
	l.refuse(yamltree.Position{Source: source}, "", message)
}

// override replaces the value of a key.
func (l *loader) override(s *setting, source, value string) {
	at := yamltree.Position{Source: source}
	if !utf8.ValidString(value) {
		l.refuse(at, s.path, "is not UTF-8 text")
		return
	}
	maps.DeleteFunc(l.at, func(place string, _ yamltree.Position) bool { return strings.HasPrefix(place, s.path+"[") })
	l.value(s, s.in(l.config), &yamltree.Node{At: at, Value: value}, s.path)
	l.at[s.path] = at
}
