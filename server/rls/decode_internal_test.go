package rls

import (
	"bytes"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"unicode/utf8"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// expected is a message as the generated code reads it.
func expected(m *pb.RateLimitRequest) *request {
	r := &request{domain: m.GetDomain(), hits: int64(m.GetHitsAddend())}
	for _, d := range m.GetDescriptors() {
		var e descriptor
		for _, entry := range d.GetEntries() {
			e.entries = append(e.entries, entryOf(entry))
		}
		if h := d.GetHitsAddend(); h != nil {
			e.hasHits, e.hits = true, int64(min(h.GetValue(), store.MaxCost))
		}
		e.negative = d.GetIsNegativeHits()
		if l := d.GetLimit(); l != nil {
			e.limit = &override{requests: l.GetRequestsPerUnit(), unit: uint64(l.GetUnit()), multiplier: l.GetUnitMultiplier().GetValue()}
		}
		r.descriptors = append(r.descriptors, e)
	}
	return r
}

func (r *request) tooMany() bool {
	return len(r.descriptors) > maxDescriptors || slices.ContainsFunc(r.descriptors, func(d descriptor) bool { return len(d.entries) > maxEntries })
}

// A message of many empty descriptors or entries does not need much more memory than its
// size.
func TestDecode_Memory(t *testing.T) {
	descriptors := bytes.Repeat([]byte{0x12, 0}, 1<<19)
	entries := protowire.AppendBytes([]byte{0x12}, bytes.Repeat([]byte{0x0a, 0}, 1<<19))
	for name, message := range map[string][]byte{"descriptors": descriptors, "entries": entries} {
		r := new(request)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := r.decode(message)
		if runtime.ReadMemStats(&after); err != nil || !r.tooMany() || after.TotalAlloc-before.TotalAlloc > 1<<18 {
			t.Errorf("%s: %d bytes, %v", name, after.TotalAlloc-before.TotalAlloc, err)
		}
	}
}

// Decoding agrees with the generated code, except that it takes text that is not UTF-8.
func FuzzDecode(f *testing.F) {
	whole, err := proto.Marshal(&pb.RateLimitRequest{Domain: "shop", HitsAddend: 7, Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries:    []*ratelimit.RateLimitDescriptor_Entry{{Key: "a", Value: "b"}, {Key: "c", Value: "d"}},
		Limit:      &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: 2, UnitMultiplier: wrapperspb.UInt32(4)},
		HitsAddend: wrapperspb.UInt64(0), IsNegativeHits: true,
	}, {}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x01, 0xff})
	f.Add([]byte{0x10, 0x05, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add([]byte{0x12, 0x02, 0x20, 0x01, 0x12, 0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m pb.RateLimitRequest
		theirs := proto.Unmarshal(data, &m)
		got := new(request)
		ours := got.decode(data)
		if got.tooMany() {
			return // whatever comes then is not decoded
		}
		if theirs != nil {
			if ours == nil && utf8.Valid(data) {
				t.Fatalf("%x is accepted, the generated code says %v", data, theirs)
			}
			return
		}
		if ours != nil {
			t.Fatalf("%x is refused: %v", data, ours)
		}
		if want := expected(&m); !reflect.DeepEqual(got, want) {
			t.Fatalf("%x is %+v, want %+v", data, got, want)
		}
	})
}

func entryOf(e *ratelimit.RateLimitDescriptor_Entry) fluxgate.DescriptorEntry {
	return fluxgate.DescriptorEntry{Key: e.GetKey(), Value: e.GetValue()}
}
