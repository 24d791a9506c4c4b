package local

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
)

// buckets are the rates of a cluster. A rate that is not among them has all of its burst.
type buckets struct {
	start time.Time        // of the clock; a monotonic one
	due   map[string]int64 // guarded by cluster.mu: when the bucket is full again, in nanoseconds since start
	sweep int              // guarded by cluster.mu: with how many entries full buckets are removed
}

// minSweep keeps small maps from being swept all the time.
const minSweep = 1024

// Draw implements [coord.Rates]. The used tokens of a rate are forgotten with the process.
func (n *Node) Draw(ctx context.Context, draws ...coord.Draw) ([]coord.Drawn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.isClosed() {
		return nil, coord.ErrClosed
	}
	latest := make(map[string]coord.Draw, len(draws))
	for _, d := range draws {
		latest[d.Name] = d
	}
	now := int64(time.Since(c.rates.start))
	drawn := make([]coord.Drawn, len(draws))
	for i, d := range draws {
		drawn[i] = c.rates.draw(now, latest[d.Name], d.Tokens)
	}
	c.rates.dropFull(now)
	return drawn, nil
}

func (b *buckets) draw(now int64, d coord.Draw, tokens int) coord.Drawn {
	if tokens <= 0 {
		return coord.Drawn{}
	}
	if !limits.IsName(d.Name) {
		return coord.Drawn{Next: limits.Never}
	}
	step, slack := limits.Bucket(d.Interval, d.Burst)
	granted, due, next := limits.Draw(now, b.due[d.Name], step, slack, 0, int64(tokens))
	b.due[d.Name] = due
	if granted == int64(tokens) {
		next = 0
	}
	return coord.Drawn{Tokens: int(granted), Next: time.Duration(next)}
}

// dropFull removes full buckets when there are many buckets.
func (b *buckets) dropFull(now int64) {
	if len(b.due) < b.sweep {
		return
	}
	for name, due := range b.due {
		if due <= now {
			delete(b.due, name)
		}
	}
	b.sweep = max(minSweep, 2*len(b.due))
}
