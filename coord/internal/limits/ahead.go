package limits

import (
	"math/rand/v2"
	"time"
)

// Ahead is tokens of a rate that a node has drawn before they are there. So nodes that wait for a rate take turns, and do
// not all draw at the moment at which there is a token. The zero value has none. Times are in nanoseconds of any clock.
//
// A node may be late with its drawn tokens. Each interval by which it is late takes one of them: tokens that others
// have drawn for later do not come on top.
type Ahead struct {
	step, slack int64
	at          int64 // when they are there
	drawn, left int64
}

const (
	// longestLead is how long before its time a token is drawn at most. A node that ends wastes its drawn tokens.
	longestLead = int64(10 * time.Second)
	// aheadFor is the time at the full rate for which tokens are drawn at once, if more are wanted: without a limit one node
	// would take all for long.
	aheadFor = int64(100 * time.Millisecond)
	// leastAhead is the time at the full rate for which tokens are drawn at once, though fewer are wanted.
	leastAhead = int64(20 * time.Millisecond)
)

// Lead returns how long before its time a token of a rate can be drawn. Nodes that find none that is near enough draw at a random
// moment of the interval in which one comes near, so that none of them is always first.
func Lead(step int64) int64 { return max(longestLead-step, longestLead/2) }

// Several returns how many tokens a node draws ahead that wants some number of them.
func Several(step, slack, tokens int64) int64 {
	return min(slack/step+1, max(1, min(tokens, aheadFor/step), leastAhead/step))
}

// DrawAhead draws tokens of a bucket that has none at a time. due is the result of [Draw] for it. It returns
// the drawn tokens, and when the bucket is full again. It draws none, and reports false, if that is too early: the node
// should draw again after [Again]. Then it may draw earlier than others.
func DrawAhead(now, due, step, slack, tokens int64, again bool) (a Ahead, after int64, ok bool) {
	n := Several(step, slack, tokens)
	after = due + n*step
	a = Ahead{step: step, slack: slack, at: after - slack - step, drawn: n, left: n}
	if a.at-now > Earliest(step, again) {
		return Ahead{}, due, false
	}
	return a, after, true
}

// Earliest returns how long before its time a node can draw a token. One that found none that was near enough before can
// draw earlier than others.
func Earliest(step int64, again bool) int64 {
	if again {
		return Lead(step)
	}
	return Lead(step) - step
}

// Rest returns the tokens that are left of a draw at a time.
func Rest(at, step, slack, drawn, left int64) Ahead {
	return Ahead{step: step, slack: slack, at: at, drawn: drawn, left: left}
}

// Wait returns how long it takes until the tokens are there.
func (a *Ahead) Wait(now int64) int64 { return max(1, a.at-now) }

// Take takes up to so many of the tokens. It returns how many it got, and reports whether it got none because they are not
// there yet: see [Ahead.Wait]. Tokens of a rate that was changed are given up.
func (a *Ahead) Take(now, step, slack, tokens int64) (granted int64, early bool) {
	if a.left == 0 || a.step != step || a.slack != slack {
		*a = Ahead{}
		return 0, false
	}
	if now < a.at {
		return 0, true
	}
	granted = max(0, min(tokens, a.left, a.drawn-(now-a.at)/step))
	if a.left -= granted; granted < tokens {
		*a = Ahead{}
	}
	return granted, false
}

// IsOver reports whether none of the tokens can be taken any more.
func (a *Ahead) IsOver(now int64) bool { return a.left == 0 || now-a.at >= a.drawn*a.step }

// Again returns when a node is to draw again that got nothing, also not ahead: next is how long it takes until there is a
// token.
func Again(next, step int64) int64 {
	return max(1, next-Lead(step)+rand.Int64N(min(step, longestLead/2)+1))
}
