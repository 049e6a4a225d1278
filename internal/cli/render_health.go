package cli

import (
	"fmt"
	"slices"
	"strings"

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
	for _, text := range a.serverProblems() {
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

// serverProblem is what is wrong with servers, before and after their names.
type serverProblem struct{ what, detail string }

// serverProblems has one text for each node of Redis that does not answer, and for each
// status and reason of servers that are not up. A node that is the reason has its text
// already.
func (a *topAnswers) serverProblems() []string {
	servers := map[serverProblem][]string{}
	var found []serverProblem
	add := func(server, what, detail string) {
		p := serverProblem{what, detail}
		if servers[p] == nil {
			found = append(found, p)
		}
		servers[p] = append(servers[p], server)
	}
	for i := range a.Fleet.Servers {
		s := &a.Fleet.Servers[i]
		explained := s.Status == "" || s.Status == "up"
		for _, n := range s.Redis {
			if n.Open {
				add(s.Name, "Redis "+word(n.Node)+" is unavailable from", n.Error)
				explained = explained || strings.HasPrefix(s.Reason, n.Node+": ")
			}
		}
		if !explained {
			add(s.Name, "health is "+word(s.Status)+" on", s.Reason)
		}
	}
	var texts []string
	for _, p := range found {
		text := p.what + " " + a.names(servers[p])
		if p.detail != "" {
			text += ": " + word(p.detail)
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
