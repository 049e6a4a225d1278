package cli

import (
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// requestFlags describe a request.
type requestFlags struct {
	request    fluxgate.Request
	ip         string
	headers    []string
	attributes map[string]string
	descriptor []string
	estimate   fluxgate.Estimate

	identity *pflag.FlagSet // all but --rule-set
}

func (f *requestFlags) flags(cmd *cobra.Command, ruleSetHelp string) {
	f.identity = pflag.NewFlagSet("request", pflag.ContinueOnError)
	f.identity.StringVar(&f.ip, "ip", "", "the client's IP address")
	f.identity.StringVar(&f.request.UserID, "user", "", "the user")
	f.identity.StringVar(&f.request.APIKey, "api-key", "", "the API key")
	f.identity.StringVar(&f.request.Method, "method", "GET", "the method")
	f.identity.StringVar(&f.request.Path, "path", "/", "the path")
	f.identity.StringVar(&f.request.Host, "host", "", "the host")
	f.identity.StringArrayVar(&f.headers, "header", nil, "a header, such as X-Plan=gold")
	f.identity.StringToStringVar(&f.attributes, "attribute", nil, "an attribute, such as tier=premium")
	f.identity.StringArrayVar(&f.descriptor, "descriptor", nil,
		"an entry of the descriptor, such as remote_address=192.0.2.1; repeat it in order")
	cmd.Flags().AddFlagSet(f.identity)
	cmd.Flags().StringVar(&f.request.RuleSet, "rule-set", "", ruleSetHelp)
}

// costFlags adds what the request costs, by each measure.
func (f *requestFlags) costFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Int64Var(&f.request.Cost, "cost", 1, "the cost under rules that count requests")
	flags.StringToInt64Var(&f.request.Costs, "costs", nil, "the cost under rules that count something else, such as usd=1200,images=2")
	flags.StringVar(&f.estimate.Model, "model", "", "the language model, for an estimate by the cost tables")
	flags.Int64Var(&f.estimate.InputTokens, "input-tokens", 0, "the tokens of the prompt, for an estimate")
	flags.Int64Var(&f.estimate.MaxOutputTokens, "max-output-tokens", 0,
		"the maximum tokens of the answer, for an estimate (default: that of the model)")
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
	if f.estimate != (fluxgate.Estimate{}) {
		req.Estimate = &f.estimate
	}
	if err := req.CheckCosts(); err != nil {
		return nil, &usageError{err}
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
	for _, entry := range f.descriptor {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || key == "" {
			return nil, usage("--descriptor: %q is not key=value", entry)
		}
		req.Descriptor = append(req.Descriptor, fluxgate.DescriptorEntry{Key: key, Value: value})
	}
	if len(req.Descriptor) > rules.MaxDescriptor {
		return nil, usage("--descriptor: %d entries, at most %d are allowed", len(req.Descriptor), rules.MaxDescriptor)
	}
	return &req, nil
}

// checkRuleSet refuses what cannot be the id of a rule set.
func checkRuleSet(id string) error {
	if !rules.ValidID(id) {
		return usage("%q is not a rule set id: use 1 to 64 of A-Z a-z 0-9 . _ -", id)
	}
	return nil
}
