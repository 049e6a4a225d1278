package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/config"
)

// problemsOf is what is said about a file, by Load or else by Check.
func problemsOf(file string) error {
	c, err := config.Load(config.Sources{File: file})
	if err != nil {
		return err
	}
	return c.Check()
}

// Problems are shown where they were written.
func TestLoad_Problems(t *testing.T) {
	files, err := filepath.Glob("testdata/wrong/*.*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".golden") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			err := problemsOf(filepath.ToSlash(file))
			var problems *config.Error
			if !errors.As(err, &problems) || len(problems.Problems) == 0 {
				t.Fatalf("error %v, want an Error with problems", err)
			}
			golden(t, file+".golden", err.Error()+"\n")
		})
	}
}

// Every secret in the files of testdata begins like this.
const marker = "hunter2"

// No error shows a secret, wherever the file is cut off.
func TestLoad_ProblemsWithoutSecrets_NoRace(t *testing.T) {
	for _, file := range []string{"secrets.yaml", "syntax-after-a-secret.yaml", "sense.yaml", "sense-auth.yaml", "sense-access.yaml"} {
		data, err := os.ReadFile("testdata/wrong/" + file)
		if err != nil || !strings.Contains(string(data), marker) {
			t.Fatalf("%s has no secret in it (%v)", file, err)
		}
		// Nor may an error of an incomplete file show it.
		path := write(t, file, "")
		for cut := range len(data) + 1 {
			if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			if err := problemsOf(path); err != nil && strings.Contains(err.Error(), marker) {
				t.Fatalf("%s, cut after %d bytes: the error shows a secret:\n%v", file, cut, err)
			}
		}
	}
}

// No error about the environment or the command line shows a secret.
func TestLoad_SourcesWithoutSecrets(t *testing.T) {
	for _, from := range []config.Sources{
		{Environ: []string{"FLUXGATE_REDIS_URI=redis://u:hunter2@h:x"}},
		{Environ: []string{"FLUXGATE_REDIS_TIMEOUT=redis://u:hunter2@h"}},
		{Environ: []string{"FLUXGATE_REDIS_PASSWORD=hunter2"}},
		{Environ: []string{"FLUXGATE_SERVER_AUTH_TOKENS=[{name: a, token: hunter2}]"}},
		{Environ: []string{"FLUXGATE_SERVER_AUTH_TOKENS=[{name: a, sha256: hunter2, roles: [check]}]"}},
		{Environ: []string{"FLUXGATE_SERVER_AUTH_TOKENS=hunter2"}},
		{Environ: []string{"FLUXGATE_SETTLE_RECEIPT_SECRET_FILE=hunter2"}},
		{Environ: []string{"FLUXGATE_RATELIMIT_TRUSTED_PROXIES=redis://u:hunter2@h"}},
		{Environ: []string{"FLUXGATE_SERVER_HTTP=u:hunter2@h"}},
		{Environ: []string{"FLUXGATE_MONGO_URI=mongodb://u:hunter2"}},
		{Environ: []string{"FLUXGATE_TELEMETRY_OTLP_ENDPOINT=ftp://u:hunter2@h"}},
		{Environ: []string{"FLUXGATE_SERVER_AUTH_OIDC_ISSUER=https://u:hunter2@h"}},
		{Environ: []string{"FLUXGATE_SERVER_AUTH_OIDC_ISSUER=https://h?hunter2"}},
		{Environ: []string{"FLUXGATE_SERVER_AUTH_CERTIFICATES=[{name: a, subject: hunter2, password: hunter2}]"}},
		{Environ: []string{"FLUXGATE_SERVER_ADMIN_HOSTS=u:hunter2@h"}},
		{Environ: []string{"FLUXGATE_EVENTS_WEBHOOK=hooks.example.com/hunter2"}},
		{Set: []string{"redis.uri redis://u:hunter2@h"}},
		{Set: []string{"redis://u:hunter2@h=x"}},
		{Set: []string{"redis.password=hunter2"}},
		{Set: []string{"redid.u:hunter2@h=x"}},
		{Set: []string{"redis.urii.u:hunter2@h=x"}},
		{Set: []string{"redis.mode=redis://u:hunter2@h"}},
		{Set: []string{"redis.cluster-nodes=u:hunter2@h:1"}},
	} {
		c, err := config.Load(from)
		if err == nil {
			err = c.Check()
		}
		if err == nil || strings.Contains(err.Error(), marker) {
			t.Errorf("%v: error %v, want one that shows no secret", from, err)
		}
	}
}

// Errors say what was probably meant.
func TestLoad_Suggestions(t *testing.T) {
	for _, c := range []struct {
		from config.Sources
		says string
	}{
		{config.Sources{Environ: []string{"FLUXGATE_REDIS_URL=x"}}, "FLUXGATE_REDIS_URL: is not a known key: did you mean redis.uri?"},
		{config.Sources{Environ: []string{"FLUXGATE_RATELIMIT_DEFAULTRULESETID=x"}}, "did you mean ratelimit.default-rule-set-id?"},
		{config.Sources{Environ: []string{"FLUXGATE_REDIS_PORT=6379"}}, "FLUXGATE_REDIS_PORT: is not a known key"},
		{config.Sources{Environ: []string{"FLUXGATE_SOMETHING_ELSE_ENTIRELY=x"}}, "FLUXGATE_SOMETHING_ELSE_ENTIRELY: is not a known key"},
		{config.Sources{Environ: []string{"FLUXGATE_WAIT_FOR_REFILL_MAX_WAIT_TIME=5"}}, "must be a time such as 30s or 100ms"},
		{config.Sources{Set: []string{"redis.tiemout=1s"}}, "--set redis.tiemout: is not a known key: did you mean redis.timeout?"},
		{config.Sources{Set: []string{"redis.pool.maxTotal=1"}}, "did you mean redis.pool.max-total?"},
		{config.Sources{Set: []string{"redid.uri=x"}}, "did you mean redis.uri?"},
		{config.Sources{Set: []string{"redis=x"}}, "--set redis: is not a known key"},
		{config.Sources{Set: []string{"redis.uri.host=x"}}, "is not a known key"},
		{config.Sources{Set: []string{"server.auth.tokens=[{rule-set: [b]}]"}}, "tokens[0].rule-set: is not a known key: did you mean rule-sets?"},
		{config.Sources{Set: []string{"log.level"}}, "--set number 1: must have the form key=value"},
	} {
		if _, err := config.Load(c.from); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: says %v, want %q", c.from, err, c.says)
		}
	}
}

// A file that cannot be read is an error.
func TestLoad_UnreadableFile(t *testing.T) {
	for name, file := range map[string]string{
		"missing": "testdata/missing.yaml", "a folder": "testdata", "too long": write(t, "long.yaml", "fluxgate:\n"+strings.Repeat("#", 1<<20)),
	} {
		if _, err := config.Load(config.Sources{File: file}); err == nil || !strings.HasPrefix(err.Error(), "reading the configuration: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An error lists at most 100 problems.
func TestLoad_ManyProblems_NoRace(t *testing.T) {
	file := write(t, "many.yaml", "fluxgate: {redis: {"+manyKeys(500)+"}}\n")
	_, err := config.Load(config.Sources{File: file})
	var problems *config.Error
	if !errors.As(err, &problems) || len(problems.Problems) != 100 || !strings.HasSuffix(err.Error(), "and 400 more problems") {
		t.Errorf("%d problems: %.300v", len(problems.Problems), err)
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("k", 1+i%50) + string(rune('a'+i/50)) + ": 1,\n")
	}
	return b.String()
}

// Values are bounded, and a value beyond its bound is one short problem.
func TestLoad_BoundedValues(t *testing.T) {
	for name, from := range map[string]config.Sources{
		"a text that never ends":     {Environ: []string{"FLUXGATE_SERVER_AUTH_TOKENS=" + strings.Repeat("[", 2<<20)}},
		"a number that is too large": {Set: []string{"redis.shards=99999999999999999999"}},
		"another encoding":           {Environ: []string{"FLUXGATE_REDIS_PREFIX=\xff"}},
		"not a number":               {Set: []string{"telemetry.sample-ratio=NaN"}},
	} {
		_, err := config.Load(from)
		var problems *config.Error
		if !errors.As(err, &problems) || len(problems.Problems) != 1 || len(err.Error()) > 500 {
			t.Errorf("%s: %.500v", name, err)
		}
	}
}

// Problems of all sources are reported together.
func TestLoad_AllSources(t *testing.T) {
	_, err := config.Load(config.Sources{
		File: write(t, "f.yaml", "fluxgate:\n  one: 1\n  log: {level: []}\n"), Environ: []string{"FLUXGATE_TWO=2", "FLUXGATE_REDIS_SHARDS=x"}, Set: []string{"three=3"},
	})
	var problems *config.Error
	if !errors.As(err, &problems) || len(problems.Problems) != 5 {
		t.Errorf("%v", err)
	}
}
