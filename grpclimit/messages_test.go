package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/rules"
)

var (
	received = grpclimit.WithReceivedMessages(true)
	sent     = grpclimit.WithSentMessages(true)
)

// Each message takes where asked, and the first that is refused ends the stream. The
// beginning of the stream takes nothing.
func TestMessages_Limit(t *testing.T) {
	five := []string{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		name     string
		options  []grpclimit.Option
		method   string
		handled  int // messages that the handler gets
		answered int // messages that the client gets
		code     codes.Code
		left     int64
	}{
		{"received by a client stream", []grpclimit.Option{received}, clientStream, 3, 0, codes.ResourceExhausted, 0},
		{"received by a bidi stream", []grpclimit.Option{received}, bidi, 3, 3, codes.ResourceExhausted, 0},
		{"received by a server stream", []grpclimit.Option{received}, serverStream, 1, 1, codes.OK, 2},
		{"received by a unary call", []grpclimit.Option{received}, unary, 1, 1, codes.OK, 2},
		{"sent by a client stream", []grpclimit.Option{sent}, clientStream, 5, 1, codes.OK, 2},
		{"sent by a bidi stream", []grpclimit.Option{sent}, bidi, 4, 3, codes.ResourceExhausted, 0},
		{"sent by a server stream", []grpclimit.Option{sent}, serverStream, 1, 1, codes.OK, 2},
		{"sent by a unary call", []grpclimit.Option{sent}, unary, 1, 1, codes.OK, 2},
		{"both of a bidi stream", []grpclimit.Option{received, sent}, bidi, 2, 1, codes.ResourceExhausted, 0},
		{"neither", nil, bidi, 5, 5, codes.OK, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			service, engine := new(echo), newEngine(t, []rules.Rule{perHour("messages", 3)})
			messages := five
			if c.method == serverStream {
				messages = five[:1]
			}
			a := invoke(t.Context(), limited(t, service, engine, c.options...), c.method, messages...)
			if a.code() != c.code || len(a.messages) != c.answered || len(service.messages()) != c.handled || left(t, engine) != c.left {
				t.Errorf("the handler got %q, the client %q, %v; %d left", service.messages(), a.messages, a.err, left(t, engine))
			}
			if d := detailsOf(t, a.err); (c.code == codes.OK) != (d.retry == nil) || (c.code == codes.OK) != (d.quota == nil) {
				t.Errorf("%v", d)
			}
			if len(a.header["x-ratelimit-limit"]) != 1 {
				t.Errorf("header %v", a.header)
			}
		})
	}
}

// The cost of a message can depend on it.
func TestMessages_Cost(t *testing.T) {
	var directions []bool
	service, engine := new(echo), newEngine(t, []rules.Rule{perHour("bytes", 100)})
	conn := limited(t, service, engine, received, sent, grpclimit.WithCostFunc(func(c *grpclimit.Call) int64 {
		directions = append(directions, c.Sent)
		return int64(len(c.Message.(*wrapperspb.StringValue).Value))
	}))
	if a := invoke(t.Context(), conn, bidi, "12345", "1234567890"); a.err != nil || left(t, engine) != 70 {
		t.Errorf("%v, %d left", a.err, left(t, engine))
	}
	if !slices.Equal(directions, []bool{false, true, false, true}) {
		t.Errorf("sent: %v", directions)
	}
}

// A rule that denies a caller does so when the stream begins, and an empty bucket
// does not.
func TestMessages_Beginning(t *testing.T) {
	began := 0
	service := &echo{hook: func(context.Context, grpc.ServerStream) error { began++; return nil }}
	denied := newEngine(t, []rules.Rule{{ID: "no", Action: rules.ActionDeny}})
	if a := invoke(t.Context(), limited(t, service, denied, received), bidi); a.code() != codes.PermissionDenied || began != 0 {
		t.Errorf("%v, the handler ran %d times", a.err, began)
	}
	conn := limited(t, service, newEngine(t, []rules.Rule{perHour("messages", 1)}), received)
	for _, messages := range [][]string{{"the only one"}, nil, nil} {
		if a := invoke(t.Context(), conn, bidi, messages...); a.err != nil {
			t.Errorf("%q: %v", messages, a.err)
		}
	}
	if began != 3 {
		t.Errorf("the handler ran %d times", began)
	}
}

// After a refusal the stream ends with its status, whatever the handler does.
func TestMessages_HandlerGoesOn(t *testing.T) {
	receive := func(ss grpc.ServerStream) error { return ss.RecvMsg(new(wrapperspb.StringValue)) }
	send := func(ss grpc.ServerStream) error { return ss.SendMsg(wrapperspb.String("hello")) }
	for name, goOn := range map[string]func(ss grpc.ServerStream, refused error) error{
		"it returns nothing":     func(grpc.ServerStream, error) error { return nil },
		"it returns another":     func(grpc.ServerStream, error) error { return errors.New("of the handler") },
		"it returns what it got": func(_ grpc.ServerStream, refused error) error { return refused },
		"it waits for its end":   func(ss grpc.ServerStream, _ error) error { <-ss.Context().Done(); return ss.Context().Err() },
		"it receives once more":  func(ss grpc.ServerStream, refused error) error { return same(receive(ss), refused) },
		"it sends once more":     func(ss grpc.ServerStream, refused error) error { return same(send(ss), refused) },
	} {
		for what, c := range map[string]struct {
			option grpclimit.Option
			move   func(grpc.ServerStream) error
		}{"received": {received, receive}, "sent": {sent, send}} {
			t.Run(name+", "+what, func(t *testing.T) {
				service := &echo{hook: func(_ context.Context, ss grpc.ServerStream) error {
					if err := c.move(ss); err != nil { // it takes the only token
						t.Error(err)
					}
					return goOn(ss, c.move(ss))
				}}
				a := invoke(t.Context(), limited(t, service, newEngine(t, []rules.Rule{perHour("messages", 1)}), c.option), bidi, "a", "b", "c")
				if a.code() != codes.ResourceExhausted {
					t.Errorf("%v", a.err)
				}
			})
		}
	}
}

// same panics if the stream does not fail as before.
func same(err, refused error) error {
	if refused == nil || !errors.Is(err, refused) {
		panic(fmt.Sprintf("the stream gives %v after %v", err, refused))
	}
	return nil
}

// A message that is decided while another is refused fails with that refusal.
func TestMessages_RefusedMeanwhile(t *testing.T) {
	waits := make(chan struct{})
	limiter := limiterFunc(func(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
		if req.UserID == "sent" {
			close(waits)
			<-ctx.Done()
			return fluxgate.Decision{}, ctx.Err()
		}
		return fluxgate.Decision{Allowed: req.Peek, Reason: fluxgate.ReasonLimited}, nil
	})
	service := &echo{hook: func(_ context.Context, ss grpc.ServerStream) error {
		sending := make(chan error, 1)
		go func() { sending <- ss.SendMsg(wrapperspb.String("hello")) }()
		<-waits
		refused := ss.RecvMsg(new(wrapperspb.StringValue))
		return same(<-sending, refused)
	}}
	user := grpclimit.WithUserFunc(func(c *grpclimit.Call) string {
		if c.Sent {
			return "sent"
		}
		return ""
	})
	if a := invoke(t.Context(), limited(t, service, limiter, received, sent, user, grpclimit.WithObserver(new(recorder))), bidi, "a"); a.code() != codes.ResourceExhausted {
		t.Errorf("%v", a.err)
	}
}

// A message waits for its tokens.
func TestMessages_Waiting(t *testing.T) {
	conn := limited(t, new(echo), engineOver(t, realStore(), []rules.Rule{waiting(time.Millisecond)}, fluxgate.WithWaiting(time.Minute, 9)), received, sent)
	began := time.Now()
	a := invoke(t.Context(), conn, bidi, "a", "b", "c")
	if a.err != nil || len(a.messages) != 3 || time.Since(began) < 5*time.Millisecond {
		t.Errorf("%q, %v after %v", a.messages, a.err, time.Since(began))
	}
}
