package fluxgate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// overrideKeys makes the keys of the overrides of a rule.
type overrideKeys struct {
	prefix keyPrefix
	fields []keyfield.Field
	names  string
	err    error // there is no such rule
}

func (t *Overrides) keysOf(set *Compiled, id string) *overrideKeys {
	rule, ok := set.Rule(id)
	if !ok {
		return &overrideKeys{err: fmt.Errorf("%w: %s", ErrNoRule, printable.Quote(id))}
	}
	return &overrideKeys{prefix: newKeyPrefix(t.salt, set.ID(), id), fields: compileFields(&rule), names: keyNames(&rule)}
}

func (k *overrideKeys) key(keyer *keyer, identity map[string]string) (id store.KeyID, err error) {
	if k.err != nil {
		return id, k.err
	}
	req, _, err := keyer.requestOf(k.fields, identity)
	if err != nil {
		return id, err
	}
	b, ok := keyer.appendDigested(slices.Clone(k.prefix[:]), k.fields, req, readDigest)
	if !ok {
		return id, errors.New("a value of the identity is not one that requests can have")
	}
	sum := sha256.Sum256(b)
	return store.KeyID(sum[:len(id)]), nil
}

// appendDigested appends the parts of a key, with digests in place of secrets.
func (k *keyer) appendDigested(
	b []byte, fields []keyfield.Field, req *Request, digest func(value string) (sum [sha256.Size]byte, ok bool),
) (encoded []byte, ok bool) {
	for _, f := range fields {
		if !f.Secret() {
			if b, ok = k.appendField(b, f, req); !ok {
				return b, false
			}
			continue
		}
		sum, there := digest(secretOf(f, req))
		if !there {
			return b, false
		}
		b = append(append(b, byte(keyfield.Digest)), sum[:]...)
	}
	return b, true
}

// secretOf returns the value of a secret part of a key, or an empty string.
func secretOf(f keyfield.Field, req *Request) string {
	switch f.Kind {
	case keyfield.APIKey:
		return req.APIKey
	case keyfield.Attribute:
		return req.Attributes[f.Name]
	case keyfield.DescriptorEntry:
		return entryOf(f, req)
	default:
		return headerOf(f, req)
	}
}

// entryOf returns the value of the entry of a descriptor that counts, or an empty string.
func entryOf(f keyfield.Field, req *Request) string {
	for i := range req.Descriptor {
		if req.Descriptor[i].Key == f.Name {
			return req.Descriptor[i].Value
		}
	}
	return ""
}

// parseDescriptor reads all entries of a descriptor, such as client=acme&plan=gold, and writes them
// again. Special characters are encoded as in the query of a URL.
func parseDescriptor(text string) (entries []DescriptorEntry, normal string, err error) {
	var again strings.Builder
	for pair := range strings.SplitSeq(text, "&") {
		key, value, _ := strings.Cut(pair, "=")
		var e DescriptorEntry
		var wrongKey, wrongValue error
		e.Key, wrongKey = url.QueryUnescape(key)
		e.Value, wrongValue = url.QueryUnescape(value)
		if wrongKey != nil || wrongValue != nil || e.Key == "" || len(entries) == match.MaxDescriptor {
			return nil, "", fmt.Errorf(
				"the descriptor of an identity must have 1 to %d entries, as in client=acme&plan=gold", match.MaxDescriptor)
		}
		if (keyfield.Field{Kind: keyfield.DescriptorEntry, Name: e.Key}).Secret() {
			return nil, "", fmt.Errorf(
				"the entry %s of the descriptor may be a secret: such a descriptor can have no overrides", printable.Quote(e.Key))
		}
		if len(entries) > 0 {
			again.WriteByte('&')
		}
		again.WriteString(url.QueryEscape(e.Key) + "=" + url.QueryEscape(e.Value))
		entries = append(entries, e)
	}
	return entries, again.String(), nil
}

// digestOf returns the digest of a secret of a request.
func digestOf(value string) (sum [sha256.Size]byte, ok bool) {
	var space [512]byte // converting the string would allocate
	return sha256.Sum256(append(space[:0], value...)), value != ""
}

// readDigest reads a digest as overrides have it.
func readDigest(value string) (sum [sha256.Size]byte, ok bool) {
	raw, err := hex.DecodeString(strings.TrimPrefix(value, keyfield.DigestPrefix))
	copy(sum[:], raw)
	return sum, err == nil && len(raw) == len(sum)
}

// keyNames names the parts of a rule's key.
func keyNames(r *rules.Rule) string {
	names := fieldNames(compileFields(r))
	if r.IgnoreCase {
		names += " without regard to case"
	}
	return names
}

func fieldNames(fields []keyfield.Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.String()
	}
	return strings.Join(names, ", ")
}

// requestOf returns a request with an identity, which must have a value for each part of a
// key, and the identity as the key has it.
func (k *keyer) requestOf(fields []keyfield.Field, identity map[string]string) (*Request, map[string]string, error) {
	req := &Request{Headers: map[string][]string{}, Attributes: map[string]string{}}
	given, normal := make(map[string]string, len(identity)), make(map[string]string, len(identity))
	for name, value := range identity {
		if f, ok := keyfield.Parse(name); ok {
			name = f.String() // names of headers have several spellings
		}
		given[name] = value
	}
	for _, f := range fields {
		if f.Kind == keyfield.Global {
			continue
		}
		value, ok := given[f.String()]
		if !ok {
			return nil, nil, fmt.Errorf("the identity has no %s, which is a part of the rule's key", f)
		}
		switch f.Kind {
		case keyfield.IP:
			var err error
			if req.IP, value, err = k.parseIP(value); err != nil {
				return nil, nil, err
			}
		case keyfield.User:
			req.UserID = value
		case keyfield.APIKey:
			req.APIKey = value
		case keyfield.Method:
			value = methodClass(value)
			req.Method = value
		case keyfield.Path:
			value = cleanPath(f, value)
			req.Path = value
		case keyfield.Header:
			req.Headers[f.Name] = []string{value}
		case keyfield.Attribute:
			req.Attributes[f.Name] = value
		case keyfield.DescriptorEntry:
			req.Descriptor = append(req.Descriptor, DescriptorEntry{Key: f.Name, Value: value})
		case keyfield.Descriptor:
			entries, again, err := parseDescriptor(value)
			if err != nil {
				return nil, nil, err
			}
			req.Descriptor, value = append(req.Descriptor, entries...), again
		default:
			return nil, nil, fmt.Errorf("a rule that counts by %s can have no overrides", f)
		}
		normal[f.String()] = value
	}
	if len(normal) < len(identity) {
		return nil, nil, fmt.Errorf("the identity has other parts than the rule's key: %s", fieldNames(fields))
	}
	return req, normal, nil
}

// parseIP reads an address, or the network of IPv6 addresses that counts as one caller.
func (k *keyer) parseIP(s string) (ip netip.Addr, normal string, err error) {
	network, err := netip.ParsePrefix(s)
	if err == nil && network.Addr().Is6() && network.Bits() == k.ipv6Bits {
		ip = network.Masked().Addr()
		return ip, network.Masked().String(), nil
	}
	ip, err = netip.ParseAddr(s)
	if err != nil {
		return ip, "", fmt.Errorf("the ip of an identity must be an address or an IPv6 network with /%d", k.ipv6Bits)
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip, ip.String(), nil
	}
	network, _ = ip.Prefix(k.ipv6Bits) // checked when the engine was created
	return network.Addr(), network.String(), nil
}
