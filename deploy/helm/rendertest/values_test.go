package rendertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// schema is a part of values.schema.json.
type schema struct {
	Type                 string             `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties any                `json:"additionalProperties"`
}

// The schema names the values of values.yaml and no others, but for the maps that are
// passed on as they are.
func TestValues_Schema(t *testing.T) {
	of := loadChart(t)
	var root schema
	if err := json.Unmarshal(of.Schema, &root); err != nil {
		t.Fatal(err)
	}
	delete(root.Properties, "global") // of a parent chart
	closed := 0
	var compare func(path string, s *schema, values map[string]any)
	compare = func(path string, s *schema, values map[string]any) {
		if s.Properties == nil {
			return
		}
		closed++
		if s.AdditionalProperties != false {
			t.Errorf("%s: a misspelled name is accepted", path)
		}
		if named, there := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(values)); !slices.Equal(named, there) {
			t.Errorf("%s: the schema has %v, values.yaml %v", path, named, there)
		}
		for name, inner := range s.Properties {
			if below, is := values[name].(map[string]any); is {
				compare(path+"."+name, inner, below)
			}
		}
	}
	compare("", &root, of.Values)
	if closed < 25 {
		t.Errorf("only %d maps are closed", closed)
	}
}

// Every value has a comment.
func TestValues_Comments(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(chartFolder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	var check func(path string, node *yaml.Node)
	check = func(path string, node *yaml.Node) {
		for i := 0; i < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			switch {
			case strings.Contains(key.HeadComment, "# -- "):
			case value.Kind == yaml.MappingNode && len(value.Content) > 0:
				check(path+key.Value+".", value)
			default:
				t.Errorf("line %d: %s%s has no comment", key.Line, path, key.Value)
			}
		}
	}
	check("", document.Content[0])
}

// Values that do not fit together, or have credentials where they can be read, are refused
// with what to do.
func TestValues_Refused(t *testing.T) {
	of := loadChart(t)
	for fragment, want := range map[string]string{
		"replicas: 3":                                                            "additional properties 'replicas' not allowed",
		"redis: {url: 'redis://redis:6379'}":                                     "additional properties 'url' not allowed",
		"rules: {git: {branch: main}}":                                           "additional properties 'branch' not allowed",
		"networkPolicy: {redisPorts: []}":                                        "/networkPolicy/redisPorts", // no ports would be all ports
		"networkPolicy: {mongoPorts: []}":                                        "/networkPolicy/mongoPorts",
		"replicaCount: three":                                                    "/replicaCount",
		"http: {port: 80}":                                                       "/http/port", // not as this user
		"redis: {uri: ''}":                                                       "redis.uri: set the address of Redis",
		"redis: {uri: 'redis://:a@redis'}":                                       "redis.uri: has credentials",
		"redis: {uri: 'redis://a:b@redis'}":                                      "redis.uri: has credentials",
		"redis: {uri: 'redis://a:$(REDIS_PASSWORD)@b@redis'}":                    "redis.uri: has credentials",
		"mongo: {uri: 'http://mongo'}":                                           "mongo.uri: must begin with",
		"rules: {git: {repo: 'git.example.com:r'}}":                              "rules.git.repo: must begin with",
		"redis: {uri: 'http://redis'}":                                           "redis.uri: must begin with",
		"redis: {existingSecret: redis}":                                         "redis.uri: is not used beside redis.existingSecret",
		"redis: {uri: '', existingSecret: a, credentials: {existingSecret: b}}":  "redis.credentials: is not used beside redis.existingSecret",
		"mongo: {existingSecret: a, credentials: {existingSecret: b}}":           "mongo.credentials: is not used beside mongo.existingSecret",
		"redis: {credentials: {existingSecret: a, passwordKey: ''}}":             "/redis/credentials/passwordKey",
		"config: {redis: {password-file: a}}":                                    "config.redis.password-file: set redis.credentials instead",
		"config: {mongo: {username-file: a}}":                                    "config.mongo.username-file: set mongo.credentials instead",
		"redis: {passwordKey: password}":                                         "redis.passwordKey: is the key of the password",
		"redis: {tls: {existingSecret: redis}}":                                  "redis.tls.existingSecret: redis.uri must begin with rediss://",
		"mongo: {enabled: true}":                                                 "mongo.uri: set either",
		"mongo: {enabled: true, uri: 'mongodb://a:b@mongo'}":                     "mongo.uri: has credentials",
		"mongo: {uri: 'mongodb://mongo/?tlsCertificateKeyFilePassword=a'}":       "mongo.uri: has credentials",
		"mongo: {enabled: true, uri: 'mongodb://mongo', existingSecret: mongo}":  "mongo.uri: set either",
		"rules: {source: file}":                                                  "/rules/source",
		"rules: {source: mongo}":                                                 "rules.source: mongo needs mongo.enabled",
		"rules: {source: git}":                                                   "rules.git.repo: set the repository",
		"rules: {source: git, git: {repo: 'https://a:b@git.example.com/r'}}":     "rules.git.repo: has credentials",
		"rules: {source: xds}":                                                   "rules.xds.server: set the address",
		"rules: {existingConfigMap: rules}":                                      "rules.files: set either",
		"rules: {files: {rules.txt: a}}":                                         "rules.txt",
		"admin: {enabled: true}":                                                 "admin.enabled: the admin API needs authentication",
		"auth: {oidc: {issuer: 'https://login.example.com'}}":                    "auth.oidc.audience: set the audience",
		"auth: {oidc: {issuer: 'http://login.example.com', audience: a}}":        "auth.oidc.issuer: must begin with https://",
		"tls: {clientCAKey: ca.crt}":                                             "tls.clientCAKey: needs tls.existingSecret",
		"autoscaling: {enabled: true, minReplicas: 11}":                          "autoscaling.minReplicas: is more than",
		"{serviceMonitor: {enabled: true}, auth: {tokens: {existingSecret: a}}}": "serviceMonitor.existingSecret: with auth",

		"config: {redis: {uri: 'redis://:a@redis'}}":                    "config.redis.uri: set redis.uri or redis.existingSecret instead",
		"config: {mongo: {uri: 'mongodb://mongo'}}":                     "config.mongo.uri: set mongo.uri",
		"config: {server: {http: ':80'}}":                               "config.server.http: set http.port instead",
		"config: {server: {auth: {tokens: []}}}":                        "config.server.auth.tokens: set auth.tokens.existingSecret instead",
		"config: {server: {drain: {delay: 1s}}}":                        "config.server.drain: set drain instead",
		"config: {rules: {file: a}}":                                    "config.rules: set rules instead",
		"config: {telemetry: {otlp-endpoint: 'https://a:b@collector'}}": "config.telemetry.otlp-endpoint: has credentials",
	} {
		if _, err := render(of, values(t, smallest, fragment)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got\n%v", fragment, want, err)
		}
	}
	if _, err := render(of, nil); err == nil || !strings.Contains(err.Error(), "redis.uri: set the address of Redis") {
		t.Errorf("without values: %v", err)
	}
}

// Values are strings as they are written, whatever YAML would read them as.
func TestRender_Strings(t *testing.T) {
	rules := "  # indented\nid: a # \u2028b: c\rd: e\nrules: []\n"
	found := mustRender(t, smallest, `
nameOverride: "1234"
priorityClassName: "on"
redis: {uri: '', existingSecret: "1234", uriKey: "on", keySecret: {existingSecret: "0x10"}}
tls: {existingSecret: "12"}
test: {existingSecret: "1e3"}
topologySpread: {topologyKeys: ["yes"]}
serviceMonitor: {enabled: true, existingSecret: "1", key: "no"}
serviceAccount: {name: "1234"}`, fmt.Sprintf("rules: {files: {rules.yaml: %q}}", rules))
	if got := all[corev1.ConfigMap](found)["gate-1234-rules"].Data["rules.yaml"]; got != rules {
		t.Errorf("the rules are %q", got)
	}
	job := one[batchv1.Job](mustRender(t, smallest, "rules: {source: git, git: {repo: 'https://git.example.com/r', path: 'a: b #1', existingSecret: '1234'}}"))
	if args := job.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--file=/git/repository/a: b #1") || !slices.Contains(args, "--within=/git/repository") {
		t.Errorf("the arguments are %q", args)
	}
}

// Another configuration starts other pods; other rules do not.
func TestRender_Checksum(t *testing.T) {
	checksum := func(fragments ...string) string {
		found := mustRender(t, append([]string{smallest}, fragments...)...)
		return one[appsv1.Deployment](found).Spec.Template.Annotations["checksum/config"]
	}
	before := checksum()
	if before == "" || checksum("config: {redis: {timeout: 50ms}}") == before {
		t.Error("another configuration has the same checksum")
	}
	if checksum(fiveAnHour) != before {
		t.Error("other rules have another checksum")
	}
}

// Settings of config are kept beside those that the chart derives, also where these are
// false or empty.
func TestRender_Config(t *testing.T) {
	found := mustRender(t, smallest, `
redis: {uri: '', enabled: false}
config: {redis: {timeout: 50ms}, mongo: {database: limits}, server: {max-body: 10485760, tls: {reload-interval: 10s}}, log: {format: text}}`)
	loaded, err := loadConfig(t, found, nil)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Redis.Enabled || loaded.Mongo.Enabled || loaded.Server.GRPC != "" || loaded.Server.Drain.Delay != 5*time.Second {
		t.Errorf("what the chart derives is lost: %+v", loaded)
	}
	if loaded.Redis.Timeout != 50*time.Millisecond || loaded.Mongo.Database != "limits" || loaded.Server.MaxBody != 10<<20 ||
		loaded.Server.TLS.ReloadInterval != 10*time.Second || loaded.Log.Format != "text" {
		t.Errorf("what config sets is lost: %+v", loaded)
	}
}

// The name of the job of the rules changes with its content: a job cannot be changed.
func TestRender_JobName(t *testing.T) {
	name := func(tag string) string {
		return one[batchv1.Job](mustRender(t, smallest, "image: {tag: "+tag+"}\nrules: {source: git, git: {repo: 'https://git.example.com/r'}}")).Name
	}
	if a, again, b := name("a"), name("a"), name("b"); a != again || a == b {
		t.Errorf("%s, %s, %s", a, again, b)
	}
}

// The job of the rules reads no secrets but those of the databases: a symbolic link in the
// repository could name them.
func TestRender_JobSecrets(t *testing.T) {
	job := one[batchv1.Job](mustRender(t, smallest, `
redis: {uri: 'rediss://redis:6379', credentials: {existingSecret: redis}, tls: {existingSecret: redis}, keySecret: {existingSecret: key}}
mongo: {enabled: true, uri: 'mongodb://mongo', credentials: {existingSecret: mongo}, tls: {existingSecret: mongo}}
auth: {tokens: {existingSecret: tokens}}
tls: {existingSecret: tls}
receipts: {existingSecret: receipts}
events: {existingSecret: events}
admin: {enabled: true}
rules: {source: git, git: {repo: 'https://git.example.com/r'}}`))
	var got []string
	for _, mount := range job.Spec.Template.Spec.Containers[0].VolumeMounts {
		got = append(got, mount.Name)
	}
	if want := []string{"config", "copies", "mongo-credentials", "mongo-tls", "redis-credentials", "redis-tls", "git"}; !slices.Equal(got, want) {
		t.Errorf("mounted are %v, want %v", got, want)
	}
}

// The notes warn of what is insecure, and of nothing else.
func TestRender_Notes(t *testing.T) {
	secure := `
redis: {uri: 'rediss://:$(REDIS_PASSWORD)@redis:6379', existingSecret: redis, passwordKey: password, keySecret: {existingSecret: key}}
auth: {tokens: {existingSecret: tokens}}
tls: {existingSecret: tls}
receipts: {existingSecret: receipts}
test: {existingSecret: token}`
	for name, c := range map[string]struct {
		values []string
		want   string
	}{
		"secure":            {[]string{secure}, ""},
		"no authentication": {[]string{secure, "auth: {tokens: {existingSecret: ''}}"}, "WARNING: no authentication."},
		"no TLS":            {[]string{secure, "tls: {existingSecret: ''}"}, "WARNING: no TLS."},
		"no Redis":          {[]string{"redis: {enabled: false}"}, "the limits are multiplied by their number"},
		"one without Redis": {[]string{"redis: {enabled: false}", "replicaCount: 1"}, "A restart fills all buckets"},
		"mounted password":  {[]string{secure, "redis: {uri: 'redis://redis:6379', existingSecret: '', passwordKey: '', credentials: {existingSecret: login}}"}, ""},
		"open Redis":        {nil, "WARNING: Redis has no password"},
		"no receipts":       {nil, "Note: without receipts.existingSecret"},
		"no test":           {[]string{"auth: {tokens: {existingSecret: tokens}}"}, "Note: helm test has nothing to run"},
		"git":               {[]string{"rules: {source: git, git: {repo: 'https://git.example.com/r'}}"}, "job/gate-fluxgate-rules-"},
	} {
		notes := mustRender(t, append([]string{smallest}, c.values...)...).notes
		if c.want != "" && !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q is not in\n%s", name, c.want, notes)
		}
		if c.want == "" && (strings.Contains(notes, "WARNING") || strings.Contains(notes, "Note:")) {
			t.Errorf("%s:\n%s", name, notes)
		}
	}
}
