package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// maxHealth is how many problems top shows: the rules and the callers must stay on
// the screen.
const maxHealth = 5

// health is what is wrong, in words.
func (a *topAnswers) health() []topLine {
	var lines []topLine
	add := func(c colour, format string, args ...any) {
		lines = append(lines, topLine{c, fmt.Sprintf(format, args...)})
	}
	problems := []string{a.Fleet.Problem, a.Live.Problem, a.Callers.Problem}
	for i, problem := range problems {
		if problem != "" && !slices.Contains(problems[:i], problem) {
			add(red, "problem: %s", word(problem))
		}
	}
	for _, text := range append(a.openBreakers(), a.unhealthy()...) {
		add(red, "%s", text)
	}
	if n := a.Fleet.Total.Degraded; n > 0 {
		add(yellow, "degraded: %s requests per second are decided without Redis", rate(n))
	}
	if !slices.ContainsFunc(a.Fleet.Servers, func(s admin.Server) bool { return len(s.Revisions) > 0 }) {
		add(yellow, "no rules are loaded, or none that you may read; see fluxgate rules apply --help")
	}
	for i := range a.Fleet.Differing {
		d := &a.Fleet.Differing[i]
		shown := make([]string, len(d.Revisions))
		for i, revision := range d.Revisions {
			shown[i] = rules.ShownRevision(revision).String()
		}
		add(yellow, "rule set %s differs between servers: revisions %s", word(d.RuleSet), strings.Join(shown, ", "))
	}
	for i := range a.Fleet.Servers {
		if s := &a.Fleet.Servers[i]; s.Draining {
			add(yellow, "server %s is shutting down", word(s.Name))
		}
	}
	switch more := len(lines) - maxHealth; {
	case len(lines) == 0:
		add(green, "no problems")
	case more > 0:
		lines = append(lines[:maxHealth], topLine{yellow, fmt.Sprintf("and %s; see --output json", count(more, "more problem"))})
	}
	return lines
}

// openBreakers has one text for each node of Redis that does not answer a server.
func (a *topAnswers) openBreakers() []string {
	type outage struct {
		servers []string
		longest time.Duration
		err     string
	}
	outages := map[string]*outage{}
	var nodes []string
	for i := range a.Fleet.Servers {
		s := &a.Fleet.Servers[i]
		for _, n := range s.Redis {
			if !n.Open {
				continue
			}
			if outages[n.Node] == nil {
				outages[n.Node] = &outage{err: n.Error}
				nodes = append(nodes, n.Node)
			}
			o := outages[n.Node]
			o.servers = append(o.servers, s.Name)
			if n.Since != nil { // both by the clock of that server
				o.longest = max(o.longest, s.ReportedAt.Sub(*n.Since))
			}
		}
	}
	var texts []string
	for _, node := range nodes {
		o := outages[node]
		text := fmt.Sprintf("Redis %s is unavailable from %s for %s", word(node), a.names(o.servers), duration(o.longest))
		if o.err != "" {
			text += ": " + word(o.err)
		}
		texts = append(texts, text)
	}
	return texts
}

// names lists servers, or says that they are all.
func (a *topAnswers) names(servers []string) string {
	if len(servers) < len(a.Fleet.Servers) || a.Fleet.Problem != "" { // the others are not known then
		return word(strings.Join(servers, ", "))
	}
	return "all servers"
}

// unhealthy has one text for each status and reason of servers that are not up. An open
// breaker that is the reason has its text already.
func (a *topAnswers) unhealthy() []string {
	type health struct{ status, reason string }
	servers := map[health][]string{}
	var found []health
	for i := range a.Fleet.Servers {
		s := &a.Fleet.Servers[i]
		known := slices.ContainsFunc(s.Redis, func(n admin.RedisNode) bool { return n.Open && strings.HasPrefix(s.Reason, n.Node+": ") })
		if s.Status == "" || s.Status == "up" || known {
			continue
		}
		h := health{s.Status, s.Reason}
		if servers[h] == nil {
			found = append(found, h)
		}
		servers[h] = append(servers[h], s.Name)
	}
	var texts []string
	for _, h := range found {
		text := fmt.Sprintf("health is %s on %s", word(h.status), a.names(servers[h]))
		if h.reason != "" {
			text += ": " + word(h.reason)
		}
		texts = append(texts, text)
	}
	return texts
}
