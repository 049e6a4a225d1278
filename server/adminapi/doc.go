// Package adminapi serves the admin API: rule sets and their rules, history,
// comparing and restoring, validation, explanations, buckets and live numbers.
//
// The description of the API (OpenAPI 3.1) is generated from the types of package
// admin and the operations registered here. Each operation names the role that
// it needs in its security requirement. An operation without a role rejects all
// callers.
//
// A change names the revision that it is based on (If-Match, or If-None-Match: *
// for a new rule set). If that is not the current one, the answer is 412 with the
// changes made since. Every change and every rejected attempt is written to the
// audit, except whoami without credentials, which asks whether they are needed.
package adminapi
