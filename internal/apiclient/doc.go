// Package apiclient tests the description of the admin API: a validator checks it, and
// a client generated from it performs all operations on a rule. It is a module of its
// own, so that the product depends on neither.
package apiclient
