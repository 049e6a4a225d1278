package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// advise adds to an error what to do about it.
func (w *where) advise(err error) error {
	var told exitCode
	var wrong *usageError
	if err == nil || errors.As(err, &told) || errors.As(err, &wrong) {
		return err
	}
	if advice := w.advice(err); advice != "" {
		return fmt.Errorf("%w\n%s", err, advice)
	}
	return err
}

func (w *where) advice(err error) string {
	var problem *admin.Problem
	var own *advised
	switch {
	case errors.As(err, &own):
		return own.advice
	case errors.Is(err, admin.ErrReadOnly):
		return "" // it says what to do
	case errors.As(err, &problem):
		return w.adviceOn(problem)
	case errors.Is(err, rules.ErrNotFound), errors.Is(err, fluxgate.ErrNoRuleSet):
		return seeList
	case errors.Is(err, fluxgate.ErrNoRule):
		return seeRules
	case w.direct:
		return ""
	}
	return w.connection(err)
}

// advised is an error of which is known where it happened what to do about it.
type advised struct {
	error
	advice string // may be nothing
}

func (a *advised) Unwrap() error { return a.error }

const (
	seeList  = "see fluxgate rules list for the rule sets that there are"
	seeRules = "see fluxgate rules get for the rules that there are"
)

// adviceOn is about what a server answered.
func (w *where) adviceOn(p *admin.Problem) string {
	switch {
	case p.Status == http.StatusUnauthorized:
		return w.adviceOnToken()
	case p.Status == http.StatusForbidden:
		return "use a token with that role: server.auth in the server's configuration says who has which"
	case p.Status == http.StatusTooManyRequests:
		return "server.admin-rate in the server's configuration is how often a minute one caller may ask"
	case p.Kind == admin.KindNotFound && lacksRule(p.Detail):
		return seeRules
	case p.Kind == admin.KindNotFound:
		return seeList
	case p.Status == http.StatusNotFound && p.Kind == "" && !strings.Contains(p.Detail, "server.admin"):
		return fmt.Sprintf("is %s the address of server.admin? the one for requests is another", w.address())
	case p.Status == http.StatusBadRequest && p.Kind == "" && strings.HasPrefix(w.server, "http://"):
		return maybeTLS
	}
	return ""
}

// adviceOnToken is about a server that does not know us.
func (r *remote) adviceOnToken() string {
	from := r.tokenFile
	if r.token != "" {
		from = tokenVariable
	}
	if from == "" {
		return "the server asks who you are: use --token-file or " + tokenVariable + ", or --cert-file and --key-file"
	}
	return "the server does not accept the token in " + from + ": it may be for another server, or have expired"
}

// lacksRule reports whether it is a rule that was not found: only the words
// tell, and those about a rule set begin with the same.
func lacksRule(detail string) bool {
	return strings.Contains(detail, fluxgate.ErrNoRule.Error()) && !strings.Contains(detail, fluxgate.ErrNoRuleSet.Error())
}

// connection is about a server that did not answer.
func (w *where) connection(err error) string {
	if advice := adviceOnTLS(err); advice != "" {
		return advice
	}
	var unreachable *net.OpError
	if errors.As(err, &unreachable) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("is a server running at %s? its admin listener is server.admin; or work without one: --direct --config FILE", w.address())
	}
	return ""
}
