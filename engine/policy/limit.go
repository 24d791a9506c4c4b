package policy

import "time"

// Limit says how many of something may run at once, or be started in some time. Limits
// form a tree by Of: what runs under a limit counts for all above it. A limit with Per
// is one limit for each value found there, under the value of its parent.
type Limit struct {
	Name      string
	Of        string         // the limit above; "" if it is a root
	Max       int            // how many slots; 0 is without limit
	Rate      Rate           // how many starts in some time; the zero Rate is without limit
	Per       string         // where the value is found, such as "payload.partner"; "" if it is one limit
	Overrides map[string]int // Max for particular values of Per
}

// Rate allows Count starts in every Per, and up to Burst of them at once: a token
// bucket. Burst 0 means Count.
type Rate struct {
	Count int
	Per   time.Duration
	Burst int
}

// IsZero reports whether r is no limit at all.
func (r Rate) IsZero() bool { return r.Count == 0 }

// MaxFor returns the number of slots for one value of Per.
func (l Limit) MaxFor(value string) int {
	if n, ok := l.Overrides[value]; ok {
		return n
	}
	return l.Max
}
