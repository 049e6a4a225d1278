package adminapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/slots"
)

// An operation without a known role is refused to all callers, and the attempt is in the
// audit.
func TestAccess_NoRole(t *testing.T) {
	const word = "a token with all roles"
	sum := sha256.Sum256([]byte(word))
	var server config.Server
	server.Auth.Tokens = []config.Token{{Name: "all", SHA256: config.Hash(hex.EncodeToString(sum[:])), Roles: config.Roles}}
	for name, c := range map[string]struct {
		security []map[string][]string
		want     int
	}{
		"no requirement":        {nil, http.StatusForbidden},
		"an empty list":         {[]map[string][]string{}, http.StatusForbidden},
		"an empty requirement":  {[]map[string][]string{{}}, http.StatusForbidden},
		"no role":               {[]map[string][]string{{schemeBearer: {}}}, http.StatusForbidden},
		"an empty role":         {[]map[string][]string{{schemeBearer: {""}}}, http.StatusForbidden},
		"an unknown role":       {[]map[string][]string{{schemeBearer: {"admin"}}}, http.StatusForbidden},
		"two roles":             {[]map[string][]string{{schemeBearer: {"read", "write"}}}, http.StatusForbidden},
		"another scheme alone":  {[]map[string][]string{{schemeCertificate: {"read"}}}, http.StatusForbidden},
		"the usual requirement": {[]map[string][]string{{schemeBearer: {"read"}}, {schemeCertificate: {"read"}}}, http.StatusNoContent},
		"the role write alone":  {[]map[string][]string{{schemeBearer: {"write"}}}, http.StatusNoContent},
	} {
		for _, open := range []bool{false, true} { // also without authentication
			auth := server
			if open {
				auth.Auth = config.Auth{}
			}
			var said bytes.Buffer
			reached, log := false, must(audit.New("", slog.New(slog.NewTextHandler(&said, nil))))
			a := &API{
				slots:  slots.New(1, 1, time.Second),
				config: Config{Operator: admin.NewDirect(memrules.New(memrules.Config{}), nil, ""), Guard: must(access.New(&auth, nil)), Audit: log, Rate: 600, Clients: new(clientip.Resolver)},
			}
			mux := http.NewServeMux()
			a.huma = humago.New(mux, describe(""))
			a.huma.UseMiddleware(a.admit)
			for _, path := range []string{"/hasty", "/hasty/{ruleSet}"} {
				op := huma.Operation{OperationID: "hasty" + path, Method: http.MethodGet, Path: path, Security: c.security}
				huma.Register(a.huma, op, func(context.Context, *struct{}) (*struct{}, error) {
					reached = true
					return nil, nil
				})
			}
			handler := must(a.limit(mux))
			for _, path := range []string{"/hasty", "/hasty/mine"} {
				q := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
				q.Header.Set("Authorization", "Bearer "+word)
				w := httptest.NewRecorder()
				reached = false
				said.Reset()
				handler.ServeHTTP(w, q)
				if w.Code != c.want || reached != (c.want == http.StatusNoContent) {
					t.Errorf("%s: %s answers %d, and it was reached: %t", name, path, w.Code, reached)
				}
				if c.want == http.StatusForbidden && (strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "hasty/hasty") || !strings.Contains(said.String(), " outcome=refused ")) {
					t.Errorf("%s: the audit has %s", name, said.String())
				}
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
