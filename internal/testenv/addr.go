package testenv

import "testing"

// FreeAddr returns an address without a listener, for a program that a test starts
// itself. No other server of this process gets it until the test ends.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	port, err := reservePort()
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(func() { releasePort(port) })
	return loopback(port)
}

// SkipShort skips a test under -short that builds programs or starts servers.
func SkipShort(tb testing.TB) {
	tb.Helper()
	skipShort(tb)
}
