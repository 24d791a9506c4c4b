// Package retry has the work of backends while their coordinator cannot be used.
package retry

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord/internal/reason"
)

// Outage logs once when the coordinator cannot be used, once for each [reason.Error] that follows, and once when it can be
// used again. It is safe for concurrent use.
type Outage struct {
	log         *slog.Logger
	coordinator string

	mu      sync.Mutex
	failing map[string]bool // guarded by mu: the operations that fail at present
	since   time.Time       // guarded by mu
	logged  map[string]bool // guarded by mu: the reasons that were logged since then
}

// NewOutage returns an Outage in which nothing fails. The name of the coordinator is that in the messages, such as "the
// database".
func NewOutage(log *slog.Logger, coordinator string) *Outage {
	return &Outage{log: log, coordinator: coordinator, failing: map[string]bool{}}
}

// Failed notes that something fails at present.
func (o *Outage) Failed(what string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	tell := len(o.failing) == 0
	if tell {
		o.since, o.logged = time.Now(), map[string]bool{}
	}
	var known *reason.Error
	if errors.As(err, &known) && !o.logged[known.What] {
		o.logged[known.What] = true
		tell = true
	}
	if tell {
		o.log.Warn("coordination cannot use "+o.coordinator+" and tries again", "while", what, "error", err)
	}
	o.failing[what] = true
}

// Worked notes that something does not fail any more.
func (o *Outage) Worked(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing[what] {
		return
	}
	delete(o.failing, what)
	if len(o.failing) == 0 {
		o.log.Info("coordination can use "+o.coordinator+" again", "after", time.Since(o.since).Round(time.Millisecond))
	}
}

// Backoff is how long to wait after a failure: from a hundredth of Most up to Most, doubled each time, less a random
// part of up to a half.
type Backoff struct {
	Most time.Duration
	last time.Duration // 0: no failure before
}

// Next returns how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.Most/100), b.Most)
	return b.last/2 + rand.N(b.last/2+1)
}

// Reset says that there was no failure.
func (b *Backoff) Reset() { b.last = 0 }
