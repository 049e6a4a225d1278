package access_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// guardOf is a guard with a configuration that was loaded and checked.
func guardOf(t testing.TB, set ...string) *access.Guard {
	t.Helper()
	guard, _ := loggedGuard(t, set...)
	return guard
}

// loggedGuard is a guard and what it logs.
func loggedGuard(t testing.TB, set ...string) (*access.Guard, *testenv.LogBuffer) {
	t.Helper()
	c, err := config.Load(config.Sources{Set: append([]string{"mongo.enabled=false"}, set...)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	log := new(testenv.LogBuffer)
	guard, err := access.New(&c.Server, log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	return guard, log
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// with is a request with Authorization headers.
func with(authorization ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	if len(authorization) > 0 {
		r.Header["Authorization"] = authorization
	}
	return r
}

// outcome is what Identify says, in a word.
func outcome(who *access.Identity, err error) string {
	switch {
	case err == nil && who != nil:
		return who.Name
	case who != nil:
		return "an identity and an error"
	case errors.Is(err, access.ErrNoCredentials):
		return "nobody"
	case errors.Is(err, access.ErrRefused):
		return "refused"
	case errors.Is(err, access.ErrIssuerUnavailable):
		return "away"
	}
	return "another error"
}

// quiet hears what servers say about clients that do not trust them.
var quiet = log.New(io.Discard, "", 0)

func pemOf(cert *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
}
