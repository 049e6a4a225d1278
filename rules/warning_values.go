package rules

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/spelling"
)

// methods are the registered HTTP methods, those of caches and UPnP, and any.
var methods = strings.Fields(`GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE QUERY PRI
	ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF
	MKWORKSPACE MOVE ORDERPATCH PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE
	UPDATEREDIRECTREF VERSION-CONTROL
	PURGE BAN NOTIFY SUBSCRIBE UNSUBSCRIBE M-SEARCH *`)

// values warns about values that no request has.
func (l *linter) values() {
	for i := range l.active {
		r := l.rule(i)
		l.methods(i, r.Methods)
		l.networks(i, "users", "", r.When.Users)
		for _, name := range slices.Sorted(maps.Keys(r.When.Headers)) {
			if isAddressName(name) {
				l.networks(i, "headers", name, r.When.Headers[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(r.When.Attributes)) {
			if isAddressName(name) {
				l.networks(i, "attributes", name, r.When.Attributes[name])
			}
		}
		for j := range r.When.Descriptor {
			if m := &r.When.Descriptor[j]; m.Key == "remote_address" && isNetwork(m.Value) {
				l.network(i, Path{"when", "descriptor", j, "value"}, m.Value)
			}
		}
	}
}

// methods warns about the first method that is not registered.
func (l *linter) methods(rule int, list []string) {
	for i, method := range list {
		if slices.Contains(methods, strings.ToUpper(method)) {
			continue
		}
		advice := ""
		if l.advised++; l.advised <= MaxWarnings {
			if near := spelling.Nearest(method, methods[:len(methods)-1]); near != "" {
				advice = ": is it " + near + "?"
			}
		}
		l.add(WarnMethod, rule, Path{"methods", i}, "has the HTTP method %s, which is not registered%s", printable.Quote(method), advice)
		return
	}
}

// networks warns about the first network in a list that is compared as text.
func (l *linter) networks(rule int, field, name string, values []string) {
	i := slices.IndexFunc(values, isNetwork)
	if i < 0 {
		return
	}
	path := Path{"when", field}
	if name != "" {
		path = append(path, name)
	}
	l.network(rule, append(path, i), values[i])
}

func (l *linter) network(rule int, path Path, value string) {
	l.add(WarnNetwork, rule, path, "compares the network %s as text, which no address equals: use when.ips", printable.Quote(value))
}

// isNetwork reports whether a value is a network in CIDR notation.
func isNetwork(value string) bool {
	if len(value) > 64 || !strings.Contains(value, "/") {
		return false
	}
	_, err := netip.ParsePrefix(value)
	return err == nil
}

// addressNames are names of headers and attributes with the address of a client.
var addressNames = []string{
	"ip", "clientip", "remoteip", "sourceip", "realip", "address", "clientaddress", "remoteaddress", "sourceaddress", "remoteaddr",
	"clientaddr", "xforwardedfor", "xrealip", "xclientip", "xclusterclientip", "trueclientip", "cfconnectingip", "fastlyclientip",
	"xazureclientip", "xenvoyexternaladdress", "xoriginalforwardedfor",
}

func isAddressName(name string) bool {
	if len(name) > maxIDLength {
		return false
	}
	return slices.Contains(addressNames, strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name)))
}
