// Package apiclient is where the description of the admin API is put to the
// test: a validator reads it, and a client that is generated from it performs
// the whole life of a rule. It is a module of its own, so that neither is a
// dependency of the product.
package apiclient
