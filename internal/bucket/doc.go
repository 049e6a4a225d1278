// Package bucket is the arithmetic of limits in exact integers: of token buckets, and
// of the kinds of bands beside them.
//
// It has no clock, no lock and no memory of its own: every function takes the
// state and the time, in microseconds of the store's clock, and returns
// numbers. The Lua script of the Redis store has the same arithmetic.
//
// # The numbers
//
// A band refills R tokens every period of D ticks. With R and D divided by
// their greatest common divisor, a bucket holds
//
//	used = tokens taken × D
//
// as an integer. In e ticks it shrinks by e·R, down to 0; a take of n adds n·D
// and passes while used ≤ capacity·D. Nothing is rounded until a number is
// shown.
//
//	0            limit = capacity·D        max
//	|--- used ------|-------- debt ---------|
//	full bucket     empty bucket            furthest reservation or charge
//
// # Waiting
//
// A take that does not fit yet may be booked ahead: it is due at the first
// tick at which it fits, and is exactly the take that an ideal bucket would
// make at that tick. The bucket is brought forward to the due tick, taken
// from, and wound back; winding back may leave it in debt, above its limit.
//
// # Giving back
//
// Tokens that come back must not be handed out a second time. With U the used
// units and F(s) the units of all takes that are due at s or later, every
// operation here keeps
//
//	F(s) ≤ U + (now − s)·R    for the due tick s of every take,
//
// from which it follows that no interval [s, t] sees more than capacity·D + (t
// − s)·R units. A take of n, due at d, that is withdrawn may therefore give
// back at most n·D − (h − d)·R, where h is the last tick that a request was
// promised, or now if that is later: what the bucket may have overflowed by
// since d is lost, and so is what later requests have booked. [State.Hold]
// stores h.
//
// # Overdrafts
//
// An overdraft is debited whatever is left, up to the largest debt, as a charge
// is. It adds its units to U at once, so that the inequality above still holds
// for all other takes: they alone never pass capacity·D + (t − s)·R, whatever
// is overdrawn beside them. What is overdrawn is given back by the same rule.
//
// # Other kinds
//
// A quota, a sliding window and a limit of requests at the same time count used units
// too, and regain them by steps: at the end of a period, when a slot of the window has
// left, when a request ends. [Steps] is what they remember besides. A token has more
// than one unit only so that two versions of a rule can alternate without rounding.
//
//   - The period of a quota ends when the store's clock passes its end, which is stored.
//     The edges in [Band] come from a gateway's calendar: they give the end of a new
//     period, and never end one.
//     A quota with [Band.CountsRefused] has no debt: what is above its limit ends with
//     the period.
//   - A window of period D has slots of D/16, numbered since 1970. At a moment in slot n
//     it counts slots n−16 to n, which cover at least D and less than 17/16·D: so it
//     never admits more than a log over D, and refuses nothing that a log over 17/16·D
//     admits.
//   - A request holds a slot of a concurrency band until it is released, or until its
//     hold has passed by the store's clock.
package bucket
