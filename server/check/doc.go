// Package check answers whether a request may pass, over HTTP: /v1/check,
// /v1/check:batch, /v1/settle, and /api/ratelimit/check for existing clients of
// FluxGate. It is the path that everyone waits on, so it is short and written
// by hand; what stands around it, who may ask and where it listens, is others'.
//
// A caller can say how long it waits for the answer (timeoutMs): a request that
// a rule would have to hold longer is rejected at once. Texts that are not
// UTF-8 are refused, since JSON would make one caller of two; a request with
// "bytes": true has texts whose characters are bytes.
package check
