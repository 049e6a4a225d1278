// Package limittest tests that the middleware gives the same responses with every
// [fluxgate.Limiter]: an engine, a client of a server, or your own. The golden
// responses are in testdata.
package limittest
