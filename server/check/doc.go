// Package check answers whether a request may pass, over HTTP: /v1/check,
// /v1/check:batch, /v1/settle, and /api/ratelimit/check for existing clients of
// FluxGate. It is the path that everyone waits on, so it is short and written
// by hand; what stands around it, who may ask and where it listens, is others'.
package check
