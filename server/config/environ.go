package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
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

// others matches variables that are not of the configuration, with their values. Kubernetes and
// container links describe a service called fluxgate, or fluxgate-redis, in such variables to all
// containers beside it.
var others = regexp.MustCompile(`^FLUXGATE_(CONFIG=|TEST_|([A-Z0-9_]+_)?(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)=|` +
	`PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=|PORT=(tcp|udp|sctp)://))`)

// environ takes the variables.
func (l *loader) environ(variables map[string]string) {
	byName := map[string]*setting{}
	for _, s := range keys() {
		byName[s.variable()] = s
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if s := byName[name]; s != nil {
			l.override(s, name, variables[name])
		} else if !others.MatchString(name + "=" + variables[name]) {
			l.refuseSource(showName(name), unknown(strings.TrimPrefix(name, envPrefix), paths()))
		}
	}
}
