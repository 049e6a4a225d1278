package config

import (
	"github.com/fluxgate/fluxgate/internal/spelling"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// unknown says that a name is not one of the known ones, and which one was meant.
func unknown(name string, known []string) string {
	const message = "is not a known key"
	if meant := spelling.Nearest(name, known); meant != "" {
		return message + ": did you mean " + meant + "?"
	}
	return message
}

// showName is a name for a message. What is no name may hold a secret.
func showName(name string) string {
	if !syntax.Only(name, "._-") || len(name) > 64 {
		return "(a key)"
	}
	return name
}
