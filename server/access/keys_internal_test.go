package access

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/config"
)

type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) { panic("out of range") }

// A panic while keys are fetched is a failed fetch: it ends neither the process nor later ones.
func TestKeys_Panic(t *testing.T) {
	p := newProvider(&config.OIDC{Issuer: "https://issuer.example.com"}, slog.New(slog.DiscardHandler))
	p.keys.client.Store(&http.Client{Transport: panicking{}})
	for range 2 {
		if _, err := p.keys.verify(t.Context(), "a.b.c"); !errors.Is(err, ErrIssuerUnavailable) || !strings.Contains(err.Error(), "panic: out of range") {
			t.Errorf("verify: %v", err)
		}
	}
}
