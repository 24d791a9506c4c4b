package kv

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
)

// rateCells is how many cells have the rates: see permitCells.
const rateCells = 1024

// buckets is the value of a cell that has some rates. Times are in nanoseconds since 1970.
type buckets struct {
	Time int64            `json:"time"` // of the latest draw
	Full map[string]int64 `json:"full"` // when the bucket of each rate is full again; a rate that is missing has all of its burst
}

func parseBuckets(c Cell) (*buckets, error) {
	b := &buckets{}
	if c.Exists() {
		if err := json.Unmarshal(c.Value, &b); err != nil {
			return nil, fmt.Errorf("cell %s has no rates: %w", c.Key, err)
		}
	}
	if b.Full == nil {
		b.Full = map[string]int64{}
	}
	return b, nil
}

// Draw implements [coord.Rates]. All draws of a call are one request, unless other nodes draw from the same rates at
// that moment. It waits for an answer for at most a lease.
func (n *Node) Draw(ctx context.Context, draws ...coord.Draw) ([]coord.Drawn, error) {
	if n.isClosed() {
		return nil, coord.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, n.realLease())
	defer cancel()
	drawn := make([]coord.Drawn, len(draws))
	latest := make(map[string]coord.Draw, len(draws))
	wanted := map[string][]int{} // indexes of draws by the key of the cell
	for i, d := range draws {
		switch {
		case d.Tokens <= 0:
			continue
		case !limits.IsName(d.Name):
			drawn[i].Next = limits.Never
			continue
		}
		latest[d.Name] = d
		key := fmt.Sprintf("%s%03x", rateKey, bucket(d.Name, rateCells))
		wanted[key] = append(wanted[key], i)
	}
	for len(wanted) > 0 {
		if err := n.draw(ctx, draws, latest, wanted, drawn); err != nil {
			return nil, fmt.Errorf("draw from %d rates: %w", len(latest), err)
		}
	}
	return drawn, nil
}

// draw makes one attempt at the draws, and removes those from wanted that are answered.
func (n *Node) draw(ctx context.Context, draws []coord.Draw, latest map[string]coord.Draw, wanted map[string][]int, drawn []coord.Drawn) error {
	keys := slices.Sorted(maps.Keys(wanted))
	cells, err := n.rateCells(ctx, keys)
	if err != nil {
		return err
	}
	changes := make([]Change, len(keys))
	for i, key := range keys {
		b, err := parseBuckets(cells[i])
		if err != nil {
			return err
		}
		b.Time = n.timeSince(b.Time)
		for _, at := range wanted[key] {
			drawn[at] = b.draw(latest[draws[at].Name], draws[at].Tokens)
		}
		maps.DeleteFunc(b.Full, func(_ string, due int64) bool { return due <= b.Time }) // a full bucket is as one that was never used
		value, _ := json.Marshal(b)                                                      // text and numbers can be marshalled
		changes[i] = Change{Was: cells[i], Value: value}
	}
	outcomes, err := n.store.Swap(ctx, changes...)
	if err != nil {
		n.forgetRates(keys)
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, o := range outcomes {
		n.rates[keys[i]] = o.Now
		if o.Swapped {
			delete(wanted, keys[i])
		}
	}
	return nil
}

// rateCells returns cells as they were last, and reads those that are not known.
func (n *Node) rateCells(ctx context.Context, keys []string) ([]Cell, error) {
	n.mu.Lock()
	cells := make([]Cell, len(keys))
	known := true
	for i, key := range keys {
		c, ok := n.rates[key]
		cells[i], known = c, known && ok
	}
	n.mu.Unlock()
	if known {
		return cells, nil
	}
	return n.store.Read(ctx, keys...)
}

func (n *Node) forgetRates(keys []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range keys {
		delete(n.rates, key)
	}
}

// timeSince returns the time of rates, which is not before that of another draw. The clocks of nodes may differ, and be
// set back: a draw at an earlier time would give back what was drawn later. So the time of rates is that of the clock
// that is furthest ahead of those that have drawn: a node that finds a later time than its own adds the difference to
// its clock from then on.
func (n *Node) timeSince(latest int64) int64 {
	own := n.options.Now().UnixNano()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ahead = max(n.ahead, latest-own)
	return own + n.ahead
}

func (b *buckets) draw(d coord.Draw, tokens int) coord.Drawn {
	step, slack := limits.Bucket(d.Interval, d.Burst)
	granted, due, next := limits.Draw(b.Time, b.Full[d.Name], step, slack, int64(tokens))
	b.Full[d.Name] = due
	if granted == int64(tokens) {
		next = 0
	}
	return coord.Drawn{Tokens: int(granted), Next: time.Duration(next)}
}
