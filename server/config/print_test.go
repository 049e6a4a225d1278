package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/config"
)

const someHash = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

// The output says where each value comes from.
func TestPrint_Origins(t *testing.T) {
	c := load(t, config.Sources{
		File:    "testdata/documents.yaml",
		Environ: []string{"FLUXGATE_REDIS_URI=redis://gate:hunter2@redis:6379", "FLUXGATE_SERVER_AUTH_TOKENS=[{name: ci, sha256: " + someHash + ", roles: [check, read]}]"},
		Set:     []string{"ratelimit.trusted-proxies=10.0.0.0/8,::1", "log.level=debug"},
	})
	golden(t, "testdata/printed.yaml", c.String())
}

// The output loads as the same configuration.
func TestPrint_RoundTrip(t *testing.T) {
	c := load(t, config.Sources{File: "testdata/documents.yaml", Set: []string{
		"redis.prefix=yes", "redis.cluster-nodes=a:1,[::1]:2", "rules.file=a #b: 'c' \"d\" \\ é😀", "rules.copies=1e3", "reload.channel=- x", "mongo.database=0755",
		"ratelimit.exclude-patterns=/a/**,/b/%7Bx%7D", "server.timeouts.idle=1h1m1s", "ratelimit.fallback-share=0.000001", "redis.timeout=1ms", "server.drain.delay=1h30m",
		"server.auth.tokens=[{name: ci, roles: [check], rule-sets: [a, b]}]", "server.auth.oidc.issuer=https://login.example.com/x",
		"server.auth.certificates=[{name: a, subject: spiffe://example.com/ops, roles: [write, read], rule-sets: [c]}]", "server.admin-hosts=a.example,b",
	}})
	again := load(t, config.Sources{File: write(t, "a.yaml", c.String())})
	if got, want := plain(again), plain(c); got != want {
		t.Errorf("it is read as\n%s\nwant\n%s", got, want)
	}
}

// No output has a secret.
func TestPrint_Secrets(t *testing.T) {
	secrets := []string{"hunter2", someHash, someHash[:8]}
	c := load(t, config.Sources{Set: []string{
		"mongo.uri=mongodb://u:hunter2%40x@h/db?authMechanismProperties=AWS_SESSION_TOKEN:hunter2&tlsCertificateKeyFilePassword=hunter2&w=1",
		"telemetry.otlp-endpoint=https://u:hunter2@h:4318", "redis.cluster-nodes=u:hunter2@h:1",
		"server.auth.tokens=[{name: ci, sha256: " + someHash + ", roles: [check]}]",
		"ratelimit.trusted-proxies=redis://u:hunter2@h", "server.auth.oidc.issuer=https://u:hunter2@h",
		"events.webhook=https://u:hunter2@h/services/hunter2?x=hunter2",
	}})
	for _, uri := range []string{
		"redis://:hunter2@h", "redis://hunter2@h", "redis://u:hunter2@a:1,b:2", "redis://u:hunter2@a:1,redis://u:hunter2@b:2", "redis://u:hunter2@hunter2@h", "redis://u:hunter2/@h",
		"redis://u:hunter2", "redis://:hunter2:6379", "hunter2 h", "redis:/hunter2@h", "http://hunter2 x", "ftp://u:hunter2@h", "redis-sentinel://u:hunter2@a,b/m", "redis://h?password=hunter2",
	} {
		c.Redis.URI = config.URI(uri)
		for _, text := range []string{
			fmt.Sprint(*c), fmt.Sprintf("%#v", *c), fmt.Sprintf("%+v", c.Redis), fmt.Sprintf("%#v", c.Redis), fmt.Sprintf("%#v", c.Server.Auth), fmt.Sprintf("%#v", c.Events),
		} {
			for _, secret := range secrets {
				if strings.Contains(text, secret) {
					t.Errorf("with %s, %q is shown in\n%s", uri, secret, text)
				}
			}
		}
	}
	for uri, want := range map[config.URI]string{
		"redis://u:p@h:1/2": "redis://u:xxxxx@h:1/2", "redis://h": "redis://h", "redis-sentinel://a:1,b:2/m": "redis-sentinel://a:1,b:2/m", "": "",
		"mongodb+srv://u:p@h/db?w=majority&authSource=admin": "mongodb+srv://u:xxxxx@h/db?w=majority&authSource=admin", "[::1]:7000": "[::1]:7000",
	} {
		if uri.String() != want {
			t.Errorf("%s is shown as %s, want %s", string(uri), uri, want)
		}
	}
	for hook, want := range map[config.Webhook]string{
		"": "", "https://u:p@h/x?y": "https://h/xxxxx", "http://h:1": "http://h:1/xxxxx", "ftp://h/x": "xxxxx", "hunter2": "xxxxx", "http://%zz": "xxxxx",
	} {
		if hook.String() != want {
			t.Errorf("%s is shown as %s, want %s", string(hook), hook, want)
		}
	}
}
