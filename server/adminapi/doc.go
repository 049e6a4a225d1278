// Package adminapi answers the admin API: rule sets and their rules, history,
// differences and restoring, validation, explanations, buckets, counters and
// the audit.
//
// The description of the API (OpenAPI 3.1) is made from the types of package
// admin and from what is registered here, so it cannot say anything else. An
// operation says in its security requirement which role it needs, and is
// refused to all if it says none.
//
// A change names the revision it is based on (If-Match, or If-None-Match: *
// for the first). If that is no longer current the answer is 412, with what
// the other has changed. Every change and every refused attempt is written to
// the audit.
package adminapi
