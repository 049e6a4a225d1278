// Package middleware is shared by httplimit and grpclimit: a [Gate] describes,
// decides and holds the requests of a transport, [Headers] writes the rate limit
// headers, and an [Admission] settles the cost of a request from its context.
package middleware
