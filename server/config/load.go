package config

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/fluxgate/fluxgate/internal/spelling"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// maxFile is how long a file may be, in bytes.
const maxFile = 1 << 20

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
	l := loader{decoder: decoder{file: &yamltree.File{}}, tree: &yamltree.Node{Kind: yamltree.Object}}
	if name != "" {
		l.readFile(name, data)
	}
	l.environ(environ)
	for i, assignment := range set {
		l.assign(i, assignment)
	}
	c := Defaults()
	l.group(root(), reflect.ValueOf(&c).Elem(), l.tree, "")
	if err := l.found.orNil(); err != nil {
		return nil, err
	}
	c.from = &origin{file: l.file, tree: l.tree}
	c.fitDefaults()
	return &c, nil
}

// fitDefaults lowers defaults that contradict values that were set.
func (c *Config) fitDefaults() {
	pool, timeouts := &c.Redis.Pool, &c.Server.Timeouts
	if !c.isSet("redis.pool.max-idle") {
		pool.MaxIdle = min(pool.MaxIdle, pool.MaxTotal)
	}
	if !c.isSet("redis.pool.min-idle") {
		pool.MinIdle = min(pool.MinIdle, pool.MaxIdle)
	}
	if !c.isSet("server.timeouts.read-header") {
		timeouts.ReadHeader = min(timeouts.ReadHeader, timeouts.Read)
	}
	if database, err := parseMongo(c.Mongo.URI); err == nil && database != "" && !c.isSet("mongo.database") {
		c.Mongo.Database = database
	}
}

// ReadFile reads a file of at most 1 MiB.
func ReadFile(name string) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s has more than %d KiB", name, maxFile>>10)
	}
	return data, nil
}

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

// loader lays the sources over each other.
type loader struct {
	decoder
	tree *yamltree.Node
}

// readFile reads the file, whose values are below the key fluxgate.
func (l *loader) readFile(name string, data []byte) {
	const holds = "the key fluxgate and the configuration below it"
	document := l.readDocument(name, data, holds)
	switch {
	case document == nil:
		return
	case document.Kind != yamltree.Object:
		l.refuse(yamltree.Position{}, "", "must hold one document with "+holds)
		return
	case document.Get("fluxgate") == nil:
		l.refuse(yamltree.Position{}, "", "has no key fluxgate: the configuration must be below it")
	}
	for _, f := range document.Fields {
		switch {
		case f.Name == "fluxgate" && !f.Value.IsNull():
			l.tree = f.Value
		case f.Name == "fluxgate":
		case root().find(f.Name) != nil:
			l.refuse(f.At, f.Name, "must be below fluxgate")
		default:
			l.refuse(f.At, showName(f.Name), "is not a known key: the configuration is below fluxgate")
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
	s, within, rest := root().lookup(path)
	switch {
	case s == nil:
		l.refuseSource("--set "+showName(path), unknownPath(path, within, rest))
	case s.isGroup():
		l.refuseSource("--set "+path, "is "+s.wants())
	default:
		l.override(s, "--set "+s.path, value)
	}
}

func (l *loader) refuseSource(source, message string) {
	l.refuse(yamltree.Position{Source: source}, "", message)
}

// override lays a value over that of a key in the tree.
func (l *loader) override(s *setting, source, value string) {
	at := yamltree.Position{Source: source}
	n, names := l.tree, strings.Split(s.path, ".")
	for i, name := range names {
		if n.Kind != yamltree.Object {
			return // the decoder refuses it
		}
		over := &yamltree.Node{At: at, Kind: yamltree.Object}
		if i == len(names)-1 {
			over = &yamltree.Node{At: at, Value: value}
		}
		switch f := n.Field(name); {
		case f == nil:
			n.Fields = append(n.Fields, yamltree.Field{Name: name, At: at, Value: over})
			n = over
		case i == len(names)-1 || f.Value.IsNull():
			f.At, f.Value = at, over
			n = over
		default:
			n = f.Value
		}
	}
}

// unknownPath says what may have been meant by a path that leads nowhere.
func unknownPath(path string, within *group, rest string) string {
	var paths []string
	for _, s := range keys() {
		paths = append(paths, s.path)
	}
	if meant := spelling.Nearest(path, paths, nil); meant != "" {
		return "is not a known key: did you mean " + meant + "?"
	}
	name, _, _ := strings.Cut(rest, ".")
	return unknownKey(name, within)
}
