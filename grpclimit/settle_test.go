package grpclimit_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/rules"
)

// A handler of any kind settles its cost once.
func TestSettle_Once(t *testing.T) {
	each(t, func(t *testing.T, method string) {
		engine := newEngine(t, []rules.Rule{perHour("r", 100)})
		service := &echo{hook: func(ctx context.Context, _ grpc.ServerStream) error {
			a, ok := grpclimit.FromContext(ctx)
			if !ok || a.Decision().RuleID != "r" || a.RuleSet() != "" {
				t.Errorf("admission %+v", a)
			}
			if got, err := grpclimit.Settle(ctx, 4); err != nil || got.Returned != 6 {
				t.Errorf("settled %+v, %v", got, err)
			}
			if _, err := grpclimit.Settle(ctx, 4); !errors.Is(err, fluxgate.ErrSettled) {
				t.Errorf("settled twice: %v", err)
			}
			return nil
		}}
		conn := limited(t, service, engine, grpclimit.WithSettling(true), grpclimit.WithCost(10))
		if a := invoke(t.Context(), conn, method, "hello"); a.err != nil || left(t, engine) != 96 {
			t.Errorf("%v, %d left", a.err, left(t, engine))
		}
	})
}

// The usage of a call is settled, under all interceptors.
func TestSettle_UsageOfAll(t *testing.T) {
	rule := perHour("tokens", 1_000)
	rule.Cost = "tokens"
	engine := newEngine(t, []rules.Rule{rule})
	estimate := grpclimit.WithAmend(func(_ *grpclimit.Call, req *fluxgate.Request) error {
		req.Costs = map[string]int64{"tokens": 100}
		return nil
	})
	service := &echo{hook: func(ctx context.Context, _ grpc.ServerStream) error {
		n := 0
		for a := range grpclimit.All(ctx) {
			got, err := a.SettleUsage(ctx, &fluxgate.Usage{Costs: map[string]int64{"tokens": 30}})
			if n++; err != nil || got["tokens"].Returned != 70 {
				t.Errorf("settled %+v, %v", got, err)
			}
		}
		if n != 2 {
			t.Errorf("%d admissions", n)
		}
		return nil
	}}
	conn := serve(t, service, behind(newLimit(t, engine, estimate, grpclimit.WithSettling(true)), newLimit(t, engine, estimate, grpclimit.WithSettling(true)))...)
	if a := invoke(t.Context(), conn, bidi); a.err != nil {
		t.Error(a.err)
	}
}

// Settling without WithSettling is an error.
func TestSettle_NoAdmission(t *testing.T) {
	for name, options := range map[string][]grpclimit.Option{
		"by default": nil, "of a method that is left out": {grpclimit.WithSettling(true), grpclimit.WithoutMethods("/**")},
	} {
		t.Run(name, func(t *testing.T) {
			service := &echo{hook: func(ctx context.Context, _ grpc.ServerStream) error {
				if _, err := grpclimit.Settle(ctx, 1); !errors.Is(err, grpclimit.ErrNoAdmission) {
					t.Errorf("settled with %v", err)
				}
				if _, err := grpclimit.SettleUsage(ctx, nil); !errors.Is(err, grpclimit.ErrNoAdmission) {
					t.Errorf("settled with %v", err)
				}
				return nil
			}}
			invoke(t.Context(), limited(t, service, newEngine(t, []rules.Rule{perHour("r", 100)}), options...), bidi)
		})
	}
}
