// Package check decides requests over HTTP: /v1/check,
// /v1/check:batch, /v1/settle, and /api/ratelimit/check for existing clients of
// FluxGate; openapi.json describes them. Every decision takes this path, so its JSON is
// encoded by hand. Authentication and listeners belong to package server.
//
// timeoutMs of a request is how long its caller waits: a request that would be
// held longer is rejected at once. Strings that are not UTF-8 are rejected, since
// JSON would make two callers equal. With "bytes": true each character of a
// string is one byte.
//
// A settlement whose receipt cannot be looked up waits in memory, until Redis answers or the
// receipt ends. What a batch has taken is given back if its caller leaves before the answer.
package check
