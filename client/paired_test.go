package client_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
)

// pairing says that the checks of gates share requests.
var pairing bool

// What the engine promises also holds for checks that share a request.
func TestConformance_SharedRequests(t *testing.T) {
	pairing = true
	defer func() { pairing = false }()
	for name, test := range map[string]func(*testing.T){
		"ExactLimit": TestClient_ExactLimit, "AllOrNothing": TestClient_AllOrNothing, "ShadowRules": TestClient_ShadowRules,
		"GroupsActionsIdentities": TestClient_GroupsActionsIdentities, "CostsAndPeeks": TestClient_CostsAndPeeks, "Settle": TestClient_Settle,
		"Wait": TestClient_Wait, "StoreUnavailable": TestClient_StoreUnavailable, "Slots": TestClient_Slots, "Middleware": TestClient_Middleware,
	} {
		t.Run(name, test)
	}
}

// paired is a client whose checks share their request with another check, which
// takes nothing.
type paired struct {
	*client.Client
	testing.TB
}

func (p paired) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	release := client.Occupy(p.Client)
	ended := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(ended)
	all.Go(func() {
		if _, err := p.Client.Check(p.Context(), &fluxgate.Request{RuleSet: "peer", Peek: true}); err != nil {
			p.Error(err)
		}
	})
	all.Go(func() {
		defer release()
		for client.Waiting(p.Client) < 2 {
			select {
			case <-ended: // it was refused before it was queued
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	})
	return p.Client.Check(ctx, req)
}
