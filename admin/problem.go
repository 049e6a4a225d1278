package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Problem is an error of the admin API, as application/problem+json (RFC 9457).
type Problem struct {
	Title  string `json:"title" doc:"What the status means."`
	Status int    `json:"status" doc:"The HTTP status."`
	Detail string `json:"detail,omitempty" doc:"What is wrong, and how to correct it."`
	Kind   string `json:"kind,omitempty" doc:"validation, conflict, not-found, read-only, precondition, access, limited or unavailable."`
	// Missing is set with status 404.
	Missing string `json:"missing,omitempty" doc:"With not-found: rule, if the rule set exists and has no such rule."`
	// Errors has all problems of the request.
	Errors []ProblemDetail `json:"errors,omitempty" nullable:"false" doc:"All problems of the request."`
	// Conflict is set with status 412.
	Conflict *Conflict `json:"conflict,omitempty" doc:"With 412: the current revision and how it differs."`

	about  string // the rule set that was sent, if known
	notAPI bool   // not answered by an admin API
}

// The kinds of problems.
const (
	KindValidation   = "validation"
	KindConflict     = "conflict"
	KindNotFound     = "not-found"
	KindReadOnly     = "read-only"
	KindPrecondition = "precondition"
	KindAccess       = "access"
	KindLimited      = "limited"
	KindUnavailable  = "unavailable"
)

// missingRule is the value of [Problem.Missing] if a rule is missing.
const missingRule = "rule"

// ProblemDetail is one problem of a request.
type ProblemDetail struct {
	Location string            `json:"location,omitempty" doc:"Where, such as body.rules[3].bands[0].capacity or query.limit."`
	Code     rules.ProblemCode `json:"code,omitempty" doc:"The kind, for programs, such as required or out-of-range."`
	Path     rules.Path        `json:"path,omitempty" nullable:"false" doc:"Where in the body, for programs: names and positions."`
	Message  string            `json:"message" doc:"What is wrong, and how to correct it."`
}

// maxConflict is how many bytes of changes the answer to a conflict has at most.
const maxConflict = 64 << 10

// bodyPlace begins the locations of problems in the body of a request.
const bodyPlace = "body"

// NewProblem returns a problem with a status.
func NewProblem(status int, kind, detail string) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Kind: kind, Detail: detail}
}

// ProblemOf returns the answer of the admin API to a failed operation. It returns nil
// for errors that the caller did not cause: they belong into the log.
func ProblemOf(err error) *Problem {
	var (
		problem  *Problem
		invalid  *rules.ValidationError
		conflict *Conflict
		plain    *rules.ConflictError
		wrong    OverrideErrors
		moved    *rules.OverrideConflictError
		unfit    *UnfitError
	)
	switch {
	case errors.As(err, &problem):
		return problem
	case errors.As(err, &invalid):
		return invalidProblem(invalid)
	case errors.As(err, &conflict):
		return conflictProblem(*conflict)
	case errors.As(err, &plain):
		return conflictProblem(Conflict{ConflictError: *plain})
	case errors.As(err, &wrong):
		return wrong.problem()
	case errors.As(err, &moved):
		return NewProblem(http.StatusPreconditionFailed, KindConflict, err.Error())
	case errors.As(err, &unfit), errors.Is(err, rules.ErrNoOverrides), errors.Is(err, ErrLost):
		return NewProblem(http.StatusConflict, KindConflict, err.Error())
	case errors.Is(err, fluxgate.ErrNoRule):
		p := NewProblem(http.StatusNotFound, KindNotFound, err.Error())
		p.Missing = missingRule
		return p
	case errors.Is(err, rules.ErrNotFound), errors.Is(err, fluxgate.ErrNoRuleSet):
		return NewProblem(http.StatusNotFound, KindNotFound, err.Error())
	case errors.Is(err, ErrReadOnly):
		return NewProblem(http.StatusConflict, KindReadOnly, err.Error())
	case errors.Is(err, rules.ErrTooLarge):
		return NewProblem(http.StatusRequestEntityTooLarge, KindValidation, err.Error())
	case errors.Is(err, ErrReset), errors.Is(err, fluxgate.ErrNoBucket), errors.Is(err, fluxgate.ErrCost),
		errors.Is(err, fluxgate.ErrTooManyRules), errors.Is(err, store.ErrTooManyResets), errors.Is(err, rules.ErrTooManyOverrides):
		return NewProblem(http.StatusUnprocessableEntity, KindValidation, err.Error())
	}
	return nil
}

func invalidProblem(invalid *rules.ValidationError) *Problem {
	p := NewProblem(http.StatusUnprocessableEntity, KindValidation, "The rule set is not valid.")
	for _, found := range invalid.Problems {
		if found.Subject != "" { // the request has no such path
			p.Errors = append(p.Errors, ProblemDetail{Code: found.Code, Message: found.String()})
			continue
		}
		at := append(rules.Path{bodyPlace}, found.Path...)
		p.Errors = append(p.Errors, ProblemDetail{Location: at.String(), Code: found.Code, Path: found.Path, Message: found.Message})
	}
	return p
}

func conflictProblem(c Conflict) *Problem {
	p := NewProblem(http.StatusPreconditionFailed, KindConflict, c.Error())
	c.At = c.At.UTC()
	c.Changes, _ = rules.Abridge(c.Changes, maxConflict)
	p.Conflict = &c
	return p
}

// Error returns the detail, with a line for each problem.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", p.Detail)
	if p.Detail == "" {
		fmt.Fprintf(&b, "%d %s", p.Status, p.Title)
	}
	for _, e := range p.Errors {
		b.WriteString("\n  ")
		if place := cmp.Or(e.Path.String(), e.Location); place != "" {
			b.WriteString(place + ": ")
		}
		b.WriteString(e.Message)
	}
	return b.String()
}

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of problems.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Unwrap returns the error that the problem encodes.
func (p *Problem) Unwrap() error {
	switch p.Kind {
	case "":
		if p.notAPI {
			return ErrNotAPI
		}
	case KindNotFound:
		if p.Missing == missingRule {
			return errors.Join(rules.ErrNotFound, fluxgate.ErrNoRule)
		}
		return rules.ErrNotFound
	case KindReadOnly:
		return ErrReadOnly
	case KindValidation:
		if p.about != "" {
			return p.invalid()
		}
	case KindConflict:
		if p.Conflict != nil {
			return p.Conflict
		}
	}
	return nil
}

// invalid returns the problems of a rule set that was sent, or nil if the problem is
// another one.
func (p *Problem) invalid() error {
	found := &rules.ValidationError{RuleSetID: p.about}
	for _, e := range p.Errors {
		if e.Code != "" {
			found.Problems = append(found.Problems, rules.Problem{Code: e.Code, Path: e.Path, Message: e.Message})
		}
	}
	if len(found.Problems) == 0 {
		return nil
	}
	return found
}
