package retry

import "time"

// Batch is how much the next request changes at most. Requests that take long make the next ones smaller, and quick ones
// make them larger again: so each takes a short time, however slow the coordinator is, and delays others little. It is
// not safe for concurrent use.
type Batch struct {
	most, size int
}

// NewBatch returns a Batch for requests that change at most so much. It begins with an eighth of that, since it is not known
// how fast the coordinator is.
func NewBatch(most int) *Batch { return &Batch{most: most, size: max(1, most/8)} }

// Size returns how much the next request changes at most: 1 or more.
func (b *Batch) Size() int { return b.size }

// Took notes that a request which changed an amount has taken some time, where enough is how long it should take at most.
func (b *Batch) Took(took, enough time.Duration, changed int) {
	switch {
	case took > enough:
		b.size = max(1, b.size/2)
	case took < enough/4 && changed >= b.size/2:
		b.size = min(2*b.size, b.most)
	}
}
