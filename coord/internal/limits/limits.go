// Package limits has the common parts of the semaphores and rates of backends: how they read orders and draws.
package limits

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// IsName reports whether text can be the name of a limit or a rate.
func IsName(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// Clamp returns the numbers of an order within their ranges: most and want from 0 to top, least from 1
// to want, or 0 if nothing is wanted.
func Clamp(want, least, most, top int) (int, int, int) {
	want = min(max(want, 0), top)
	return want, min(max(least, 1), want), min(max(most, 0), top)
}

// maxSpan bounds the times of a bucket. Sums of a few of them and of the time since 1970 fit into an int64.
const maxSpan = math.MaxInt64 / 8

// Bucket returns the state-independent numbers of a rate: the nanoseconds between two tokens at the full
// rate, and by how many nanoseconds a burst may be early.
func Bucket(interval time.Duration, burst int) (step, slack int64) {
	step = min(max(int64(interval), 1), maxSpan)
	slack = min(int64(max(burst, 1)-1), maxSpan/step) * step
	return step, slack
}

// Never is the time until the next token of a rate that grants none.
const Never = time.Duration(math.MaxInt64)

// Draw takes up to tokens tokens of a bucket at a time in nanoseconds. It returns how many it got, when
// the bucket is full again, and how long it takes from now until there is another token. Tokens were drawn ahead for at
// most the time lead: see [Lead].
func Draw(now, due, step, slack, lead, tokens int64) (granted, after, next int64) {
	// If a rate was changed, due may be later than the rate allows by now.
	due = min(max(due, now), now+slack+step+lead)
	granted = max(0, min(tokens, (now+slack+step-due)/step))
	after = due + granted*step
	return granted, after, max(0, after-slack-now)
}

// MaxTokens is how many tokens can be drawn at once.
const MaxTokens = math.MaxInt32
