package cells

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// rateCells is how many cells have the rates: see permitCells.
const rateCells = 1024

// buckets is the value of a cell that has some rates. Times are in nanoseconds since 1970.
type buckets struct {
	Time  int64                  `json:"time"`  // of the latest draw
	Rates map[string]bucketValue `json:"rates"` // by the short form of the name, see [limits.Short]; a rate that is missing has all of its burst
}

// bucketValue is when the bucket of a rate is full again, and the numbers of the rate that [limits.Bucket] returns. Tokens
// that were drawn ahead are a debt, but not when the rate was changed.
type bucketValue [3]int64

func parseBuckets(c Cell) (*buckets, error) {
	b := &buckets{}
	if c.Exists() {
		if err := json.Unmarshal(c.Value, &b); err != nil {
			return nil, fmt.Errorf("cell %s has no rates: %w", c.Key, err)
		}
	}
	if b.Rates == nil {
		b.Rates = map[string]bucketValue{}
	}
	return b, nil
}

// draws is one call of Draw.
type draws struct {
	all    []coord.Draw
	latest map[string]coord.Draw // by name
	wanted map[string][]int      // indexes of draws that are not answered, by the key of the cell
	again  map[string]bool       // names of rates; the answer to each said that the node may draw again
	had    []int64               // tokens that were drawn ahead
	drawn  []coord.Drawn
}

// Draw implements [coord.Rates]. All draws of a call are one request, unless other nodes draw from the same rates at
// that moment. A node that gets no token draws one ahead, if that is there soon, and needs no request when it is. Draw
// waits for an answer for at most a lease.
func (n *Node) Draw(ctx context.Context, all ...coord.Draw) ([]coord.Drawn, error) {
	if n.isClosed() {
		return nil, coord.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, n.realLease())
	defer cancel()
	d := &draws{
		all: all, latest: make(map[string]coord.Draw, len(all)), wanted: map[string][]int{},
		again: map[string]bool{}, had: make([]int64, len(all)), drawn: make([]coord.Drawn, len(all)),
	}
	for _, one := range all {
		d.latest[one.Name] = one
	}
	for i, one := range all {
		switch {
		case one.Tokens <= 0:
		case !limits.IsName(one.Name):
			d.drawn[i].Next = limits.Never
		case n.takeAhead(d, i):
		default:
			key := fmt.Sprintf("%s%03x", rateKey, bucket(one.Name, rateCells))
			d.wanted[key] = append(d.wanted[key], i)
		}
	}
	var lost conflicts
	for {
		start := time.Now()
		if err := n.draw(ctx, d); err != nil {
			return nil, fmt.Errorf("draw from %d rates: %w", len(d.latest), err)
		}
		if len(d.wanted) == 0 {
			return d.drawn, nil
		}
		pause := lost.pause(time.Since(start), n.maxPause/8)
		if lost == manyConflicts {
			n.giveUp(d, pause)
			return d.drawn, nil
		}
		_ = wakeup.Sleep(ctx, pause) // the next attempt returns the error
	}
}

// giveUp answers the remaining draws, which may be repeated after a pause.
func (n *Node) giveUp(d *draws, pause time.Duration) {
	for _, all := range d.wanted {
		for _, at := range all {
			d.drawn[at] = coord.Drawn{Tokens: int(d.had[at]), Next: pause + 1}
		}
	}
}

// takeAhead answers a draw by tokens that were drawn ahead, and reports whether that is all of the answer.
func (n *Node) takeAhead(d *draws, i int) bool {
	one := d.all[i]
	now := n.timeSince(0)
	step, slack := limits.Bucket(d.latest[one.Name].Interval, d.latest[one.Name].Burst)
	n.mu.Lock()
	defer n.mu.Unlock()
	d.again[one.Name] = n.drawsAgain[one.Name]
	a, ok := n.drawnAhead[one.Name]
	if !ok {
		return false
	}
	delete(n.drawsAgain, one.Name)
	granted, early := a.Take(now, step, slack, int64(one.Tokens))
	n.keepAhead(one.Name, a)
	d.had[i] = granted
	d.drawn[i].Tokens = int(granted)
	if early {
		d.drawn[i].Next = time.Duration(a.Wait(now))
	}
	return early || granted == int64(one.Tokens)
}

// keepAhead notes the tokens that are drawn ahead of a rate. It is called with mu held.
func (n *Node) keepAhead(name string, a limits.Ahead) {
	if a == (limits.Ahead{}) {
		delete(n.drawnAhead, name)
	} else {
		n.drawnAhead[name] = a
	}
}

// draw makes one attempt at the draws, and removes the answered ones from wanted.
func (n *Node) draw(ctx context.Context, d *draws) error {
	if len(d.wanted) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(d.wanted))
	era := n.presentEra()
	cells, err := n.rateCells(ctx, keys)
	if err != nil {
		return err
	}
	var changes []Change
	ahead := map[string]map[string]limits.Ahead{} // drawn ahead if the cell of a key is changed, by name
	for i, key := range keys {
		b, err := parseBuckets(cells[i].Cell)
		if err != nil {
			return err
		}
		b.Time = n.timeSince(b.Time)
		ahead[key] = map[string]limits.Ahead{}
		changed := false
		for _, at := range d.wanted[key] {
			changed = b.draw(d, at, cells[i].shared > 0, ahead[key]) || changed
		}
		if !changed { // no other node need know
			n.drew(d, key, ahead[key])
			continue
		}
		maps.DeleteFunc(b.Rates, func(_ string, r bucketValue) bool { return r[0] <= b.Time }) // a full bucket is as one that was never used
		value, _ := json.Marshal(b)                                                            // text and numbers can be marshalled
		if large := n.isTooLarge(key, value); large != nil && len(value) > len(cells[i].Value) {
			n.refuseDraws(d, key, large)
			continue
		}
		changes = append(changes, Change{Was: cells[i].Cell, Value: value})
	}
	if len(changes) == 0 {
		return nil
	}
	outcomes, err := n.store.Swap(ctx, changes...)
	if err != nil {
		n.forgetRates(keys)
		return err
	}
	for _, o := range outcomes {
		n.mu.Lock()
		shared := n.rates[o.Now.Key].shared
		if !o.Swapped {
			shared = sharedFor
		}
		if n.era == era { // otherwise it may be of a time that the store has lost
			n.rates[o.Now.Key] = rateCell{o.Now, shared}
		}
		n.mu.Unlock()
		if o.Swapped {
			n.drew(d, o.Now.Key, ahead[o.Now.Key])
		}
	}
	return nil
}

// manyRates is the number of rates with tokens drawn ahead that a node notes, unless all of these can still be used.
const manyRates = 10_000

// drew notes that the draws from a cell are answered, and the tokens that were drawn ahead.
func (n *Node) drew(d *draws, key string, ahead map[string]limits.Ahead) {
	now := n.timeSince(0)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.drawnAhead)+len(n.drawsAgain) > manyRates {
		maps.DeleteFunc(n.drawnAhead, func(_ string, a limits.Ahead) bool { return a.IsOver(now) })
		clear(n.drawsAgain)
	}
	for _, at := range d.wanted[key] {
		name := d.all[at].Name
		if a, ok := ahead[name]; ok {
			n.keepAhead(name, a)
		}
		if d.drawn[at].Tokens == 0 && ahead[name] == (limits.Ahead{}) {
			n.drawsAgain[name] = true
		} else {
			delete(n.drawsAgain, name)
		}
	}
	delete(d.wanted, key)
}

// refusedFor is how long a rate gets no tokens after its cell had no room for it.
const refusedFor = time.Minute

// refuseDraws answers the draws from a cell that has no room for them.
func (n *Node) refuseDraws(d *draws, key string, why *TooLargeError) {
	for _, at := range d.wanted[key] {
		d.drawn[at] = coord.Drawn{Tokens: int(d.had[at]), Next: refusedFor}
	}
	n.options.Log.Error("no tokens are granted of some rates until others of the same cell are not used any more, or "+
		n.options.Driver+" is configured to take larger requests", "rate", d.all[d.wanted[key][0]].Name, "error", why)
	delete(d.wanted, key)
}

// rateCell is a cell of rates as it was last.
type rateCell struct {
	Cell
	shared int // how often it is still to be read before it is changed, because other nodes have changed it
}

// sharedFor is how often a cell is read, after another node has changed it, until that is no reason any more to read it.
const sharedFor = 8

// rateCells returns cells in their last known state, and reads the cells that are not known, or that other nodes change: a
// change of an outdated state is a write for nothing.
func (n *Node) rateCells(ctx context.Context, keys []string) ([]rateCell, error) {
	n.mu.Lock()
	cells := make([]rateCell, len(keys))
	known := true
	for i, key := range keys {
		c, ok := n.rates[key]
		cells[i], known = c, known && ok && c.shared == 0
	}
	n.mu.Unlock()
	if known {
		return cells, nil
	}
	read, err := n.store.Read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, c := range read {
		shared := max(0, cells[i].shared-1)
		if cells[i].Exists() && cells[i].Version != c.Version {
			shared = sharedFor
		}
		cells[i] = rateCell{c, shared}
		n.rates[c.Key] = cells[i]
	}
	return cells, nil
}

func (n *Node) forgetRates(keys []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range keys {
		delete(n.rates, key)
	}
}

// timeSince returns the time of rates, which is not before that of another draw. The clocks of nodes may differ, and be
// set back: a draw at an earlier time would give back tokens that were drawn later. So the time of rates is that of the
// fastest clock that has drawn: a node that finds a later time than its own adds the difference to
// its clock from then on.
func (n *Node) timeSince(latest int64) int64 {
	own := n.options.Now().UnixNano()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ahead = max(n.ahead, latest-own)
	return own + n.ahead
}

// draw draws for one of the draws, and reports whether that changes b. A cell that is shared gives more tokens at once of a
// fast rate. ahead has the tokens that were drawn ahead in the same call; draw adds to it.
func (b *buckets) draw(d *draws, at int, shared bool, ahead map[string]limits.Ahead) (changed bool) {
	one := d.all[at]
	name := limits.Short(one.Name, longestName)
	step, slack := limits.Bucket(d.latest[one.Name].Interval, d.latest[one.Name].Burst)
	tokens := int64(one.Tokens) - d.had[at]
	want := tokens
	if shared {
		want = max(want, limits.Several(step, slack, want))
	}
	was, lead := b.Rates[name], int64(0)
	if was[1] == step && was[2] == slack {
		lead = limits.Lead(step)
	}
	granted, due, next := limits.Draw(b.Time, was[0], step, slack, lead, want)
	b.Rates[name] = bucketValue{due, step, slack}
	d.drawn[at] = coord.Drawn{Tokens: int(d.had[at] + min(granted, tokens))}
	if granted >= tokens {
		if granted > tokens {
			ahead[one.Name] = limits.Rest(b.Time, step, slack, granted, granted-tokens)
		}
		return true
	}
	earlier, ok := ahead[one.Name]
	switch {
	case d.drawn[at].Tokens > 0:
	case ok:
		next = earlier.Wait(b.Time)
	default:
		a, after, ok := limits.DrawAhead(b.Time, due, step, slack, tokens, d.again[one.Name])
		if ok {
			ahead[one.Name], b.Rates[name] = a, bucketValue{after, step, slack}
			next, changed = a.Wait(b.Time), true
		} else {
			next = limits.Again(next, step)
		}
	}
	d.drawn[at].Next = time.Duration(max(1, next))
	return changed || granted > 0 || due < was[0]
}
