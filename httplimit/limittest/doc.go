// Package limittest holds every [fluxgate.Limiter] to the same responses: an
// engine in the process, a client of a server, or one of your own. The
// responses are whole ones, as a client of the middleware gets them, and stand
// in testdata.
package limittest
