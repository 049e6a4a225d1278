package config

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// maxFile is how long a file may be, in bytes.
const maxFile = 1 << 20

// FileVariable names the file to read where nobody else does.
const FileVariable = envPrefix + "CONFIG"

// Sources is where a configuration comes from. Each is over the one before.
type Sources struct {
	// File is a YAML or JSON file. Empty means the one that the variable
	// FLUXGATE_CONFIG names, or none.
	File string
	// Environ are variables as os.Environ has them.
	Environ []string
	// Set are assignments of the command line, such as redis.uri=redis://….
	// Of two for one key the last counts.
	Set []string
}

// Load reads a configuration over the defaults. If anything cannot be read the
// error is an [*Error] that has all of it. Whether what was read makes sense is
// for [Config.Check] to say.
func Load(from Sources) (*Config, error) {
	environ := variables(from.Environ)
	if from.File == "" {
		from.File = environ[FileVariable]
	}
	var data []byte
	if from.File != "" {
		var err error
		if data, err = readFile(from.File); err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
	}
	return load(from.File, data, environ, from.Set)
}

func load(name string, data []byte, environ map[string]string, set []string) (*Config, error) {
	c := Defaults()
	c.from = &provenance{origins: map[string]origin{}}
	l := loader{config: &c}
	if name != "" {
		l.file(name, data)
	}
	l.environ(environ)
	for i, assignment := range set {
		l.assign(i, assignment)
	}
	if err := l.found.orNil(); err != nil {
		return nil, err
	}
	c.fitDefaults()
	return &c, nil
}

// fitDefaults keeps a default from standing in the way of what was said.
func (c *Config) fitDefaults() {
	pool, timeouts := &c.Redis.Pool, &c.Server.Timeouts
	if !c.said("redis.pool.max-idle") {
		pool.MaxIdle = min(pool.MaxIdle, pool.MaxTotal)
	}
	if !c.said("redis.pool.min-idle") {
		pool.MinIdle = min(pool.MinIdle, pool.MaxIdle)
	}
	if !c.said("server.timeouts.read-header") {
		timeouts.ReadHeader = min(timeouts.ReadHeader, timeouts.Read)
	}
	if database, err := parseMongo(c.Mongo.URI); err == nil && database != "" && !c.said("mongo.database") {
		c.Mongo.Database = database
	}
}

func readFile(name string) ([]byte, error) {
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

// loader puts the sources over each other and notes what is wrong.
type loader struct {
	config *Config
	found  Error
}

// file takes what stands below fluxgate in a file.
func (l *loader) file(name string, data []byte) {
	file, flaws := yamltree.Read(name, data, mayHoldSecret)
	l.config.from.file = file
	for _, f := range flaws {
		l.found.add(file.Problem(f.At, "", f.Message))
	}
	if len(flaws) > 0 {
		return
	}
	if len(file.Documents) != 1 || file.Documents[0].Kind != yamltree.Object {
		l.found.add(file.Problem(yamltree.Position{}, "", "must hold one document with the key fluxgate and the configuration below it"))
		return
	}
	for _, f := range file.Documents[0].Fields {
		switch {
		case f.Name == "fluxgate":
			l.config.from.root = f.Value
			l.group(tree(), reflect.ValueOf(l.config).Elem(), f.Value)
		case tree().find(f.Name) != nil:
			l.found.add(file.Problem(f.At, f.Name, "must stand below fluxgate"))
		default:
			l.found.add(file.Problem(f.At, showName(f.Name), "is not a known key: the configuration stands below fluxgate"))
		}
	}
	if l.config.from.root == nil {
		l.found.add(file.Problem(yamltree.Position{}, "", "has no key fluxgate, which the configuration stands below"))
	}
}

// group takes the keys of a group from the file.
func (l *loader) group(g *group, v reflect.Value, n *yamltree.Node) {
	file := l.config.from.file
	if n.IsNull() {
		return // a group whose keys are all commented out
	}
	if n.Kind != yamltree.Object {
		l.found.add(file.Problem(n.At, g.path, "must be a group of keys: "+strings.Join(g.names(), ", ")))
		return
	}
	for _, f := range n.Fields {
		e := g.find(f.Name)
		switch {
		case e == nil:
			l.found.add(file.Problem(f.At, join(g.path, showName(f.Name)), unknownKey(f.Name, g)))
		case e.isGroup():
			l.group(e.inner, v.Field(e.field), f.Value)
		default:
			l.config.from.origins[e.path] = origin{line: f.At.Line}
			e.setNode(v.Field(e.field), placed(f), func(n *yamltree.Node, inside, message string) {
				l.found.add(file.Problem(n.At, e.path+inside, message))
			})
		}
	}
}

// assign takes one assignment of the command line.
func (l *loader) assign(i int, assignment string) {
	path, value, ok := strings.Cut(assignment, "=")
	path = strings.TrimPrefix(path, "fluxgate.")
	if !ok {
		l.found.add(Problem{File: fmt.Sprintf("--set number %d", i+1), Message: "must have the form key=value, such as redis.timeout=50ms"})
		return
	}
	e, within, rest := tree().lookup(path)
	switch {
	case e == nil:
		l.found.add(Problem{File: "--set " + showName(path), Message: unknownPath(path, within, rest)})
	case e.isGroup():
		l.found.add(Problem{File: "--set " + path, Message: "names " + e.wants()})
	default:
		l.set(e, "--set "+e.path, value)
	}
}

// unknownPath says what may have been meant by a path that leads nowhere.
func unknownPath(path string, within *group, rest string) string {
	name, _, _ := strings.Cut(rest, ".")
	if meant := nearest(name, within.names()); meant != "" {
		// Only what is a key is repeated: the rest may be anything.
		path := join(within.path, meant) + strings.TrimPrefix(rest, name)
		if e, _, _ := tree().lookup(path); e != nil && !e.isGroup() {
			return "is not a known key: did you mean " + path + "?"
		}
	}
	var paths []string
	for _, e := range leaves() {
		paths = append(paths, e.path)
	}
	if meant := nearest(path, paths); meant != "" {
		return "is not a known key: did you mean " + meant + "?"
	}
	return unknownKey(name, within)
}

// set takes a value that is a text.
func (l *loader) set(e *entry, name, value string) {
	l.config.from.origins[e.path] = origin{name: name}
	e.setText(e.value(l.config), value, func(_ *yamltree.Node, inside, message string) {
		l.found.add(Problem{File: name, Place: e.path + inside, Message: message})
	})
}
