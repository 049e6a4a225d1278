// Package upgrade replaces the servers of a fleet one after the other while callers use
// them, from a former version to this one and back, on one Redis: see make upgrade. It
// checks that no caller gets an error, that limits hold all the time, that receipts of
// either version can be settled by the other, and that nothing is lost or counted twice.
package upgrade
