package fluxgate

import "github.com/fluxgate/fluxgate/internal/match"

// limits reports whether the rule takes tokens. One that does not ends the
// evaluation.
func (r *Rule) limits() bool { return r.Action == "" || r.Action == ActionLimit }

// matching returns the rule's conditions for the matcher.
func (r *Rule) matching() match.Rule {
	return match.Rule{
		Paths: r.Paths, ExcludePaths: r.When.ExcludePaths, IgnoreCase: r.IgnoreCase, Methods: r.Methods, Hosts: r.When.Hosts,
		Headers: r.When.Headers, Attributes: r.When.Attributes, IPs: r.When.IPs,
		Users: r.When.Users, APIKeys: r.When.APIKeys, Descriptor: r.When.descriptor(),
		Group: r.Group, Shadow: r.Mode == ModeShadow, Final: !r.limits(),
	}
}

func (w *When) descriptor() []match.DescriptorMatch {
	var all []match.DescriptorMatch
	for _, m := range w.Descriptor {
		all = append(all, match.DescriptorMatch(m))
	}
	return all
}

// matching returns what the matcher needs of the request.
func (r *Request) matching() match.Request {
	return match.Request{
		Path: r.Path, Method: r.Method, Host: r.Host, IP: r.IP, User: r.UserID,
		APIKey: r.APIKey, Headers: r.Headers, Attributes: r.Attributes, Descriptor: r.Descriptor,
	}
}
