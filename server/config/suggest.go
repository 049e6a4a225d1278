package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/spelling"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// unknownKey says what may have been meant by a key that a group does not
// have.
func unknownKey(name string, g *group) string {
	const message = "is not a known key"
	if meant := spelling.Nearest(name, g.names(), nil); meant != "" {
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
	if meant := spelling.Nearest(word, words, nil); meant != "" {
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

// mayHoldSecret reports whether a name or a value may hold a secret.
func mayHoldSecret(s string) bool {
	lower := strings.ToLower(s)
	for _, part := range []string{"://", "@", "uri", "token", "credential", "sha256", "webhook"} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	return namesSecret(s)
}

// secretNames are names of fields with secrets, without - and _.
var secretNames = regexp.MustCompile(`(?i)apikey|authorization|cookie|secret|password`)

// namesSecret reports whether a string contains the name of a secret.
func namesSecret(s string) bool {
	return secretNames.MatchString(strings.NewReplacer("-", "", "_", "").Replace(s))
}
