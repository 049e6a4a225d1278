package config

import (
	"fmt"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/spelling"
	"github.com/fluxgate/fluxgate/internal/syntax"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// otherSpellings are keys and values by their names in other programs, without
// - and _.
var otherSpellings = map[string]string{
	"url": "uri", "address": "uri", "host": "uri", "nodes": "cluster-nodes", "namespace": "prefix", "keyprefix": "prefix",
	"cert": "cert-file", "certificate": "cert-file", "key": "key-file", "clientca": "client-ca-file", "ca": "client-ca-file",
	"path": "file", "ruleset": "default-rule-set-id", "rulesetid": "default-rule-set-id", "defaultruleset": "default-rule-set-id",
	"includes": "include-patterns", "include": "include-patterns", "excludes": "exclude-patterns", "exclude": "exclude-patterns",
	"proxies": "trusted-proxies", "policy": "default-policy", "failuremode": "on-failure", "interval": "polling-interval",
	"maxwait": "max-wait-time", "maxwaits": "max-concurrent-waits", "maxactive": "max-total", "maxsize": "max-total",
	"listen": "http", "port": "http", "ratelimiter": "ratelimit", "limits": "ratelimit", "mongodb": "mongo", "logging": "log",
	"deny": "REJECT", "block": "REJECT", "wait": "WAIT_FOR_REFILL", "pubsub": "REDIS_PUBSUB", "fatal": "error", "trace": "debug",
	"hash": "sha256", "token": "sha256", "endpoint": "otlp-endpoint", "hotreload": "reload",
	"san": "subject", "cn": "subject", "commonname": "subject", "certs": "certificates", "openid": "oidc", "iss": "issuer",
	"aud": "audience", "clientid": "audience", "groupsclaim": "roles-claim", "userclaim": "name-claim",
	"usernameclaim": "name-claim", "cafile": "client-ca-file", "allowedhosts": "admin-hosts", "hosts": "admin-hosts",
	"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false",
}

// nearest is the name that was probably meant, "" if none is near.
func nearest(name string, names []string) string {
	return spelling.Nearest(name, names, otherSpellings)
}

// unknownKey says what may have been meant by a key that a group does not
// have.
func unknownKey(name string, g *group) string {
	const message = "is not a known key"
	if meant := nearest(name, g.names()); meant != "" {
		return message + ": did you mean " + meant + "?"
	}
	var elsewhere []string
	for _, s := range keys() {
		if spelling.Plain(s.name) == spelling.Plain(name) && g == root() || s.name == name {
			elsewhere = append(elsewhere, s.path)
		}
	}
	if len(elsewhere) == 1 {
		return message + " here: did you mean " + elsewhere[0] + "?"
	}
	return message + ": known here are " + strings.Join(g.names(), ", ")
}

// didYouMean is the end of a message about a word that is not one of several.
func didYouMean(word string, words []string) string {
	if meant := nearest(word, words); meant != "" {
		return ": did you mean " + meant + "?"
	}
	return ""
}

// show is a value for a message. One that may hold a password is not shown,
// whatever the setting that it was put into by mistake.
func show(value string) string {
	if mayHoldSecret(value) || len(value) > 40 {
		return "this value"
	}
	return printable.Quote(value)
}

// showName is the name of a key for a message.
func showName(name string) string {
	switch {
	case !syntax.Only(name, "._-") && mayHoldSecret(name):
		return "(a key)"
	case !syntax.Only(name, "._-"):
		return printable.Quote(name)
	case len(name) > 64:
		return fmt.Sprintf("%.64s…", name)
	}
	return name
}

// mayHoldSecret reports whether a line, a name or a value may hold a secret.
func mayHoldSecret(s string) bool {
	lower := strings.ToLower(s)
	for _, part := range []string{"://", "@", "uri", "token", "credential", "sha256"} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	return yamltree.NamesSecret(s)
}
