package rls

import (
	"bytes"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/fluxgate/fluxgate"
)

// The size of a message is before it, however many bytes that has.
func TestAppendMessage(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 20_000} {
		message := bytes.Repeat([]byte("x"), n)
		want := protowire.AppendBytes(protowire.AppendTag([]byte("before"), 3, protowire.BytesType), message)
		got := appendMessage([]byte("before"), 3, func(b []byte) []byte { return append(b, message...) })
		if !bytes.Equal(got, want) {
			t.Errorf("a message of %d bytes is %.20x, want %.20x", n, got, want)
		}
	}
}

// A decision without Redis says so.
func TestResponse_Degraded(t *testing.T) {
	c := call{all: fluxgate.Decision{Reason: fluxgate.ReasonStoreFailure, RuleID: "per-user", Degraded: true}}
	c.decisions = []fluxgate.Decision{c.all}
	var r pb.RateLimitResponse
	if err := proto.Unmarshal(c.response(true), &r); err != nil {
		t.Fatal(err)
	}
	fields := r.GetDynamicMetadata().AsMap()
	if r.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT || len(fields) != 3 || fields["degraded"] != true || fields["rule"] != "per-user" {
		t.Errorf("%v", &r)
	}
}
