package cli

import (
	"net/netip"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// requestFlags describe a request.
type requestFlags struct {
	request    fluxgate.Request
	ip         string
	headers    []string
	attributes map[string]string

	identity *pflag.FlagSet // all but --rule-set
}

// flags adds them. The ids of rule sets are completed from the target.
func (f *requestFlags) flags(cmd *cobra.Command, from *target, ruleSetHelp string) {
	f.identity = pflag.NewFlagSet("request", pflag.ContinueOnError)
	f.identity.StringVar(&f.ip, "ip", "", "the client's IP address")
	f.identity.StringVar(&f.request.UserID, "user", "", "the user")
	f.identity.StringVar(&f.request.APIKey, "api-key", "", "the API key")
	f.identity.StringVar(&f.request.Method, "method", "GET", "the method")
	f.identity.StringVar(&f.request.Path, "path", "/", "the path")
	f.identity.StringVar(&f.request.Host, "host", "", "the host")
	f.identity.StringArrayVar(&f.headers, "header", nil, "a header, such as X-Plan=gold")
	f.identity.StringToStringVar(&f.attributes, "attribute", nil, "an attribute, such as tier=premium")
	cmd.Flags().AddFlagSet(f.identity)
	cmd.Flags().StringVar(&f.request.RuleSet, "rule-set", "", ruleSetHelp)
	_ = cmd.RegisterFlagCompletionFunc("rule-set", from.completeRuleSets) // the flag exists
}

// given reports whether any flag but --rule-set describes the request.
func (f *requestFlags) given() bool {
	given := false
	f.identity.VisitAll(func(flag *pflag.Flag) { given = given || flag.Changed })
	return given
}

// read is the request that the flags describe.
func (f *requestFlags) read() (*fluxgate.Request, error) {
	req := f.request
	req.Attributes = f.attributes
	if req.RuleSet != "" {
		if err := checkRuleSet(req.RuleSet); err != nil {
			return nil, err
		}
	}
	if req.Cost < 0 {
		return nil, usage("--cost: must not be negative, got %d", req.Cost)
	}
	if f.ip != "" {
		ip, err := netip.ParseAddr(f.ip)
		if err != nil {
			return nil, usage("--ip: %q is not an IP address", f.ip)
		}
		req.IP = ip
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, usage("--header: %q is not name=value", h)
		}
		if req.Headers == nil {
			req.Headers = map[string][]string{}
		}
		req.Headers[name] = append(req.Headers[name], value)
	}
	return &req, nil
}

// checkRuleSet refuses what cannot be the id of a rule set.
func checkRuleSet(id string) error {
	if !fluxgate.ValidID(id) {
		return usage("%q is not a rule set id: use 1 to 64 of A-Z a-z 0-9 . _ -", id)
	}
	return nil
}
