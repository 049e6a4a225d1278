package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/spelling"
)

// variables are those whose names begin with FLUXGATE_. Of two with one name the
// last counts.
func variables(environ []string) map[string]string {
	found := map[string]string{}
	for _, variable := range environ {
		if name, value, ok := strings.Cut(variable, "="); ok && strings.HasPrefix(name, envPrefix) {
			found[name] = value
		}
	}
	return found
}

// Kubernetes and container links describe a service called fluxgate, or
// fluxgate-redis, in variables of these names to all containers beside it.
var (
	serviceName = regexp.MustCompile(`^FLUXGATE_([A-Z0-9_]+_)?` +
		`(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	servicePort = regexp.MustCompile(`^FLUXGATE_([A-Z0-9_]+_)?PORT$`)
	portValue   = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// isOthers reports whether a variable is not one of the configuration.
func isOthers(name, value string) bool {
	return name == FileVariable || strings.HasPrefix(name, envPrefix+"TEST_") ||
		serviceName.MatchString(name) || servicePort.MatchString(name) && portValue.MatchString(value)
}

// environ takes the variables.
func (l *loader) environ(variables map[string]string) {
	byName := map[string]*setting{}
	for _, s := range keys() {
		byName[s.variable()] = s
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if s := byName[name]; s != nil {
			l.override(s, name, variables[name])
		} else if !isOthers(name, variables[name]) {
			l.refuseSource(showName(name), unknownVariable(name))
		}
	}
}

// unknownVariable says what may have been meant by one that is not known.
func unknownVariable(name string) string {
	names := make([]string, 0, len(keys()))
	for _, s := range keys() {
		names = append(names, strings.TrimPrefix(s.variable(), envPrefix))
	}
	// Without the prefix, or any two would be alike.
	if meant := spelling.Nearest(strings.TrimPrefix(name, envPrefix), names, nil); meant != "" {
		return "is not a known variable: did you mean " + envPrefix + meant + "?"
	}
	return "is not a known variable: the variable of a key is FLUXGATE_ and its name, such as FLUXGATE_REDIS_URI for redis.uri"
}
