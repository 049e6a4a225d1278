package cli

import (
	"net/netip"
	"slices"
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

	flags *pflag.FlagSet
}

func (f *requestFlags) add(cmd *cobra.Command) {
	f.flags = pflag.NewFlagSet("request", pflag.ContinueOnError)
	f.flags.StringVar(&f.ip, "ip", "", "the client's address")
	f.flags.StringVar(&f.request.UserID, "user", "", "the user")
	f.flags.StringVar(&f.request.APIKey, "api-key", "", "the API key")
	f.flags.StringVar(&f.request.Method, "method", "GET", "the method")
	f.flags.StringVar(&f.request.Path, "path", "/", "the path")
	f.flags.StringVar(&f.request.Host, "host", "", "the host")
	f.flags.StringArrayVar(&f.headers, "header", nil, "a header, such as X-Plan=gold")
	f.flags.StringToStringVar(&f.attributes, "attribute", nil, "an attribute, such as tier=premium")
	cmd.Flags().AddFlagSet(f.flags)
}

// given reports whether anything of the request was said.
func (f *requestFlags) given() bool {
	var changed []bool
	f.flags.VisitAll(func(flag *pflag.Flag) { changed = append(changed, flag.Changed) })
	return slices.Contains(changed, true)
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
		return nil, usage("--cost: %d is not a number of tokens", req.Cost)
	}
	if f.ip != "" {
		ip, err := netip.ParseAddr(f.ip)
		if err != nil {
			return nil, usage("--ip: %q is not an address", f.ip)
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
		return usage("%q is not the id of a rule set: 1 to 64 letters, digits, dots, dashes and underscores", id)
	}
	return nil
}
