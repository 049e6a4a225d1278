// Package fleet simulates gateways that share a store: see make simulate-fleet. Engines,
// leases and buckets are the real ones. Requests, the network, the capacity of the store
// and time are modelled: a simulation runs in a bubble of testing/synctest.
package fleet
