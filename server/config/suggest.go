package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/syntax"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// otherSpellings are what keys and their values are called elsewhere, without
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
	"san": "subject", "cn": "subject", "commonname": "subject", "certs": "certificates", "openid": "oidc", "iss": "issuer", "aud": "audience",
	"clientid": "audience", "groupsclaim": "roles-claim", "userclaim": "name-claim", "usernameclaim": "name-claim", "cafile": "client-ca-file",
	"allowedhosts": "admin-hosts", "hosts": "admin-hosts",
}

// plain is a name without what people spell differently.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
}

// nearest is the name that was probably meant, "" if none is near.
func nearest(name string, names []string) string {
	wanted := plain(name)
	for _, n := range names {
		if plain(n) == wanted {
			return n
		}
	}
	if other := otherSpellings[wanted]; slices.Contains(names, other) {
		return other
	}
	best, least := "", max(2, len(wanted)/5)+1
	if len(wanted) < 4 {
		least = 2
	}
	for _, n := range names {
		if d := distance(wanted, plain(n)); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return containing(wanted, names)
	}
	return best
}

// containing is the only name that has the wanted one in it, or is in it, as
// PUBSUB is in REDIS_PUBSUB.
func containing(wanted string, names []string) string {
	const least = 4 // letters that mean something
	found := ""
	for _, n := range names {
		p := plain(n)
		if len(p) < least || len(wanted) < least || !strings.Contains(p, wanted) && !strings.Contains(wanted, p) {
			continue
		}
		if found != "" {
			return ""
		}
		found = n
	}
	return found
}

// distance is how many letters are added, missing, other or swapped with their
// neighbours.
func distance(a, b string) int {
	const most = 100
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	var before []int // the row before the last one
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// unknownKey says what may have been meant by a key that a group does not
// have.
func unknownKey(name string, g *group) string {
	const message = "is not a known key"
	if meant := nearest(name, g.names()); meant != "" {
		return message + ": did you mean " + meant + "?"
	}
	var elsewhere []string
	for _, e := range leaves() {
		if plain(e.name) == plain(name) && g.typ == tree().typ || e.name == name {
			elsewhere = append(elsewhere, e.path)
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

// show is a value for a message. What may have a password in it is not shown,
// wherever it was put by mistake.
func show(value string) string {
	if mayHoldSecret(value) || len(value) > 40 {
		return "what is there"
	}
	return yamltree.Quote(value)
}

// showName is a key for a message and for its place.
func showName(name string) string {
	switch {
	case !syntax.Only(name, "._-") && mayHoldSecret(name):
		return "(a key)"
	case !syntax.Only(name, "._-"):
		return yamltree.Quote(name)
	case len(name) > 64:
		return fmt.Sprintf("%.64s…", name)
	}
	return name
}

// mayHoldSecret reports whether a line, a name or a value may have a secret in
// it that its name alone does not tell of.
func mayHoldSecret(s string) bool {
	lower := strings.ToLower(s)
	for _, part := range []string{"://", "@", "uri", "token", "credential", "sha256"} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	return yamltree.NamesSecret(s)
}
