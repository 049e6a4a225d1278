package fluxgate

import (
	"bytes"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

func compiled(t testing.TB, r rules.Rule) *compiledRule {
	t.Helper()
	if len(r.Bands) == 0 {
		r.Bands = []rules.Band{rules.PerSecond(1)}
	}
	r.ID = "r"
	set, err := rules.NewSet("s", r)
	if err != nil {
		t.Fatal(err)
	}
	return &Must(Compile(set)).active[0]
}

func keyOf(t testing.TB, r *compiledRule, req *Request) store.KeyID {
	t.Helper()
	k := keyer{ipv6Bits: 64}
	prefix := newKeyPrefix([]byte("salt"), "s", r.ID)
	id, ok, err := k.key(r, &prefix, req)
	if !ok || err != nil {
		t.Fatalf("no key for %+v: %v", req, err)
	}
	return id
}

// Requests share a key exactly if their identities are equal.
func TestKey_SharedBuckets(t *testing.T) {
	ip := func(s string) Request { return Request{IP: netip.MustParseAddr(s)} }
	user := func(s string) Request { return Request{UserID: s, IP: netip.MustParseAddr("192.0.2.1")} }
	byIP, byUser := rules.Rule{Scope: rules.ScopeIP}, rules.Rule{Scope: rules.ScopeUser}
	anonymous := rules.Rule{Scope: rules.ScopeUser, OnMissingIdentity: rules.MissingAnonymous}
	byPath := rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"ip", "path"}}
	byMethod := rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"method"}}
	pair := rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"userId", "apiKey"}}
	header := rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"header:X-Tenant"}}
	whole := rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"descriptor"}}
	entry := rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"descriptor:b"}}
	descriptor := func(keysAndValues ...string) Request {
		var r Request
		for pair := range slices.Chunk(keysAndValues, 2) {
			r.Descriptor = append(r.Descriptor, DescriptorEntry{Key: pair[0], Value: pair[1]})
		}
		return r
	}
	custom := rules.Rule{Scope: rules.ScopeCustom, KeyFields: []string{"attr:tenant"}}
	for _, c := range []struct {
		name string
		rule rules.Rule
		a, b Request
		same bool
	}{
		{"two addresses do not", byIP, ip("192.0.2.1"), ip("192.0.2.2"), false},
		{"a mapped address and the same address do", byIP, ip("192.0.2.1"), ip("::ffff:192.0.2.1"), true},
		{"two addresses of one IPv6 network do", byIP, ip("2001:db8::1"), ip("2001:db8::ffff:1"), true},
		{"two IPv6 networks do not", byIP, ip("2001:db8::1"), ip("2001:db8:0:1::1"), false},
		{"an address with and without zone do", byIP, ip("fe80::1%eth0"), ip("fe80::1"), true},
		{"everyone does in GLOBAL", rules.Rule{}, ip("192.0.2.1"), user("u"), true},
		{"two users do not", byUser, user("a"), user("b"), false},
		{"users differ by letter case", byUser, user("a"), user("A"), false},
		{"one user from two addresses does", byUser, Request{UserID: "u", IP: netip.MustParseAddr("192.0.2.1")}, Request{UserID: "u", IP: netip.MustParseAddr("192.0.2.9")}, true},
		{"nobody shares with a user who is called like an address", byUser, user(""), user("192.0.2.1"), false},
		{"nobodies from two addresses do not", byUser, ip("192.0.2.1"), ip("192.0.2.2"), false},
		{"nobodies do where they are anonymous", anonymous, ip("192.0.2.1"), ip("192.0.2.2"), true},
		{"an anonymous one does not share with a user called anonymous", anonymous, ip("192.0.2.1"), user("anonymous"), false},
		{"two spellings of a path do", byPath, Request{Path: "/a/b"}, Request{Path: "/a/./c/..//%62/"}, true},
		{"two paths do not", byPath, Request{Path: "/a/b"}, Request{Path: "/a/B"}, false},
		{"two spellings of a method do", byMethod, Request{Method: "GET"}, Request{Method: "get"}, true},
		{"made-up methods do", byMethod, Request{Method: "FOO1"}, Request{Method: "FOO2"}, true},
		{"parts of a composite key do not run together", pair, Request{UserID: "ab", APIKey: "c"}, Request{UserID: "a", APIKey: "bc"}, false},
		{"parts of a composite key do not swap", pair, Request{UserID: "a", APIKey: "b"}, Request{UserID: "b", APIKey: "a"}, false},
		{"a missing part is not an empty neighbour", pair, Request{UserID: "a"}, Request{APIKey: "a"}, false},
		{"several lines of a header name nobody", header, Request{Headers: map[string][]string{"X-Tenant": {"a", "b"}}}, Request{Headers: map[string][]string{"X-Tenant": {"a", "c"}}}, true},
		{"two lines of a header are not one", header, Request{Headers: map[string][]string{"X-Tenant": {"a", "b"}}}, Request{Headers: map[string][]string{"X-Tenant": {"ab"}}}, false},
		{"the order of a descriptor counts", whole, descriptor("a", "1", "b", "2"), descriptor("b", "2", "a", "1"), false},
		{"one descriptor is the same twice", whole, descriptor("a", "1"), descriptor("a", "1"), true},
		{"an entry counts by its value alone", entry, descriptor("a", "1", "b", "2"), descriptor("b", "2"), true},
		{"two values of an entry do not", entry, descriptor("b", "1"), descriptor("b", "2"), false},
		{"of several entries with a key the first counts", entry, descriptor("b", "1", "b", "2"), descriptor("b", "1", "b", "3"), true},
		{"an entry without value is not a missing one", entry, descriptor("b", ""), descriptor("a", ""), false},
		{"an attribute counts by its value", custom, Request{Attributes: map[string]string{"tenant": "a"}}, Request{Attributes: map[string]string{"tenant": "b"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compiled(t, c.rule)
			if same := keyOf(t, r, &c.a) == keyOf(t, r, &c.b); same != c.same {
				t.Errorf("share: %t, want %t", same, c.same)
			}
		})
	}
}

// Keys differ by rule, rule set and salt.
func TestKey_RuleRuleSetAndSalt(t *testing.T) {
	seen := map[keyPrefix]string{}
	for name, p := range map[string]keyPrefix{
		"one":              newKeyPrefix([]byte("salt"), "set", "rule"),
		"another rule":     newKeyPrefix([]byte("salt"), "set", "rule2"),
		"another rule set": newKeyPrefix([]byte("salt"), "set2", "rule"),
		"another salt":     newKeyPrefix([]byte("salt2"), "set", "rule"),
		"shifted":          newKeyPrefix([]byte("salt"), "setr", "ule"),
	} {
		if other, taken := seen[p]; taken {
			t.Errorf("%s and %s share buckets", name, other)
		}
		seen[p] = name
	}
}

// Keys never change: what callers have used would be forgotten.
func TestKey_Golden(t *testing.T) {
	full := Request{
		IP: netip.MustParseAddr("2001:db8:1:2:3::4"), UserID: "alice", APIKey: "key", Method: "head", Path: "/a/./b",
		Headers: map[string][]string{"x-plan": {"gold"}}, Attributes: map[string]string{"tenant": "acme"},
		Descriptor: []DescriptorEntry{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}},
	}
	all := []string{"ip", "userId", "apiKey", "method", "path", "header:x-plan", "attr:tenant", "descriptor", "descriptor:b"}
	for name, c := range map[string]struct {
		rule rules.Rule
		req  Request
		want string
	}{
		"global":        {rules.Rule{}, full, "884e327897c076f4605a8dc5e50d2d18"},
		"ip":            {rules.Rule{Scope: rules.ScopeIP}, full, "bf4c5afd282ae7b760087015a1c70524"},
		"ipv4":          {rules.Rule{Scope: rules.ScopeIP}, Request{IP: netip.MustParseAddr("192.0.2.1")}, "c0a36adf7688088e4b3efa531c3b1308"},
		"user":          {rules.Rule{Scope: rules.ScopeUser}, full, "30eacf281ac8ef3ff73957f4874c04ed"},
		"api key":       {rules.Rule{Scope: rules.ScopeAPIKey}, full, "3a8b9145da7fffb9161318f39f38608f"},
		"composite":     {rules.Rule{Scope: rules.ScopeComposite, KeyFields: all}, full, "787463698275c225699e4496bbca295c"},
		"ignore case":   {rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"path"}, IgnoreCase: true}, Request{Path: "/A"}, "47335ef28baa69efa302932c69439db3"},
		"missing":       {rules.Rule{Scope: rules.ScopeComposite, KeyFields: all}, Request{}, "e8d5249705b8332c9160001d8a0c5a86"},
		"by address":    {rules.Rule{Scope: rules.ScopeUser}, Request{IP: full.IP}, "5ca6d4f9c2a2174012468c4099d9365c"},
		"anonymous":     {rules.Rule{Scope: rules.ScopeUser, OnMissingIdentity: rules.MissingAnonymous}, Request{IP: full.IP}, "fbced1b2bdfb756320b04be305a6b70f"},
		"other methods": {rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"method"}}, Request{Method: "PROPFIND"}, "a8ee6d3708401dca765712621e70d3ed"},
	} {
		if got := keyOf(t, compiled(t, c.rule), &c.req).String(); got != c.want {
			t.Errorf("%s: the key is %s, want %s", name, got, c.want)
		}
	}
	if e := (&Engine{salt: []byte("salt")}); e.ShowKey(store.Key{RuleSet: "s", Rule: "r", ID: store.KeyID{1}}) != "01000000000000000000000000000000e540ee9b715fbf28" {
		t.Errorf("shown as %s", e.ShowKey(store.Key{RuleSet: "s", Rule: "r", ID: store.KeyID{1}}))
	}
}

// Different descriptors have different keys, also with another part behind them.
func TestKey_Descriptors(t *testing.T) {
	r := compiled(t, rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"descriptor", "userId"}})
	// The last user is encoded as an entry of the two before it and a missing user.
	texts := []string{"", "a", "ab", "\x01a", "b", "\x05a", "a\x01b\x09\x02"}
	descriptors := [][]DescriptorEntry{nil}
	for _, key := range texts {
		for _, value := range texts {
			descriptors = append(descriptors, []DescriptorEntry{{Key: key, Value: value}})
		}
	}
	single := descriptors[1:]
	for _, first := range single {
		for _, second := range single {
			descriptors = append(descriptors, slices.Concat(first, second))
		}
	}
	seen := map[string]Request{}
	for _, d := range descriptors {
		for _, user := range texts {
			req := Request{Descriptor: d, UserID: user}
			encoded, _ := (&keyer{}).encode(nil, r, &req)
			if other, taken := seen[string(encoded)]; taken {
				t.Fatalf("%q of %q and %q of %q are encoded the same", d, user, other.Descriptor, other.UserID)
			}
			seen[string(encoded)] = req
		}
	}
	if want := (1 + 49 + 49*49) * len(texts); len(seen) != want {
		t.Errorf("%d keys were compared, want %d", len(seen), want)
	}
}

func TestKey_MissingRefuse(t *testing.T) {
	r := compiled(t, rules.Rule{Scope: rules.ScopeAPIKey, OnMissingIdentity: rules.MissingRefuse})
	k := keyer{ipv6Bits: 64}
	if _, ok, _ := k.key(r, &keyPrefix{}, &Request{}); ok {
		t.Error("a request without API key has a key")
	}
}

// identity is what a composite key of all fields depends on, as values that
// can be compared.
type identity struct {
	ip                           netip.Addr
	user, key, method, path, tag string
	headers                      []string
}

func identityOf(req *Request) identity {
	id := identity{user: req.UserID, key: req.APIKey, method: methodClass(req.Method), tag: req.Attributes["tag"], headers: req.Headers["X-H"]}
	if req.IP.IsValid() {
		id.ip = req.IP.Unmap().WithZone("")
		if id.ip.Is6() {
			p, _ := id.ip.Prefix(64)
			id.ip = p.Addr()
		}
	}
	if req.Path != "" && !strings.HasPrefix(req.Path, "//") {
		id.path = string(match.CleanPath(nil, req.Path))
	}
	if len(id.headers) != 1 || id.headers[0] == "" {
		id.headers = nil
	}
	return id
}

func FuzzKeyEncoding(f *testing.F) {
	r := compiled(f, rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"userId", "apiKey", "method", "path", "header:X-H", "attr:tag", "ip"}})
	f.Add("u", "k", "GET", "/p", "h", "t", []byte{10, 0, 0, 1}, "u", "k", "get", "//p", "h", "t", []byte{10, 0, 0, 1})
	f.Add("ab", "c", "GET", "/p", "h\x00h", "", []byte{}, "a", "bc", "GET", "/p", "h", "h", []byte{})
	f.Add("", "u", "", "", "", "\x09\x02", []byte{}, "u", "", "", "", "", "", []byte{1})
	f.Add("\x03\x01k", "", "X", "/%2f", "", "", bytes.Repeat([]byte{1}, 16), "", "k", "Y", "/", "", "", bytes.Repeat([]byte{1}, 15))
	f.Fuzz(func(t *testing.T, u1, k1, m1, p1, h1, t1 string, ip1 []byte, u2, k2, m2, p2, h2, t2 string, ip2 []byte) {
		request := func(u, k, m, p, h, tag string, ip []byte) *Request {
			addr, _ := netip.AddrFromSlice(ip)
			return &Request{
				UserID: u, APIKey: k, Method: m, Path: p, IP: addr,
				Headers: map[string][]string{"X-H": strings.Split(h, "\x00")}, Attributes: map[string]string{"tag": tag},
			}
		}
		a, b := request(u1, k1, m1, p1, h1, t1, ip1), request(u2, k2, m2, p2, h2, t2, ip2)
		k := keyer{ipv6Bits: 64}
		one, _ := k.encode(nil, r, a)
		other, _ := k.encode(nil, r, b)
		if same, want := bytes.Equal(one, other), reflect.DeepEqual(identityOf(a), identityOf(b)); same != want {
			t.Fatalf("%+v and %+v are encoded the same: %t, are the same: %t", a, b, same, want)
		}
	})
}
