// Package failover decides in this process while a shared store is away, and charges the store
// afterwards. It wraps any [store.Store]. It is above package store/lease: below it, what the
// fallback grants would be handed out as slices.
//
// # What decides
//
// A request takes these steps, and each is one function of take.go:
//
//   - decideInStore: the store decides the demands, except those whose bucket sets the fallback
//     holds. If the call fails, all are Unavailable.
//   - noteLevels: the fallback gets the levels that the store has reported, so that it begins
//     where the store has stopped.
//   - applyFailureModes: a demand that is Unavailable is decided by its [store.OnFailure]. Nothing
//     (open): it is ignored. Closed: the request is not admitted. Local: the fallback decides it,
//     by a share of its bands.
//   - withdraw: if the request is not admitted now, the store gets back what it has granted.
//
// A rejection by the store is final: nothing else is asked then. The fallback is asked last, so that
// it never has to give back.
//
// # What the store is charged
//
// What the fallback has granted for a bucket set and what has not refilled since is charged once,
// and never becomes debt: of an empty bucket, what is left. Until then the fallback decides the
// bucket set, since the store could hand out the same tokens again. A charge that was not sent is
// repeated. One that may have been made is not.
//
// # What is settled where
//
// A take from the store is settled there. If the store does not get it, it is sent later: see
// package internal/unsent. A take from the fallback is settled in the fallback, and in the next
// charge. If the store was charged already, the same tokens are corrected there: what comes back is
// at most what was sent.
//
// # The state of a bucket set
//
// A [usage] is one bucket set, and its phase says who decides it:
//
//	            took                charge made             next charge           nothing left
//	(the store) ────▶ phaseLocal ─────────────▶ phaseCharged ─────────▶ phaseLeaving ────▶ phaseDone
//	                      ▲   charge not made        │  ▲                 │    │
//	                      └──────────────────────────┘  └─────────────────┘    │
//	                      ▲        took: the store is away again               │
//	                      └─────────────────── charge not made ────────────────┘
//
// The fallback decides in the first two phases and the store in the others. In phaseLeaving the
// store is charged what was granted while the charge before was under way; without this phase a busy
// bucket would never leave. phaseDone is kept for ten minutes, for settlements.
//
// For each band there is a [debt]: how much is open. What is open of a token bucket refills by
// itself, at the rate of the fallback and after everything that was used before. So a take adds
// to it, a settlement moves it, a reset clears it and another share of the limit changes its
// rate. While a charge is under way there are two amounts, one for each of its ends, and every
// transition changes both. For other kinds than token buckets the level in the fallback bounds
// what is open: it has forgotten what has left the period or the window.
//
// # What is lost
//
// Nothing is charged that the store has refused, under bands that have changed, or of more than
// 100,000 bucket sets, and nothing if the process is killed. Each of them is counted in [Stats], but
// for the last.
package failover
