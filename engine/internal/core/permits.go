package core

import (
	"errors"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/policy"
)

// ErrPermitsLost is why tasks under a limit of the cluster are stopped when their node has lost its
// permits: other nodes may have them.
var ErrPermitsLost = errors.New("the node has lost its permits of a limit of the cluster")

// Permits passes the permits of this node to the core: the answers to Orders, and changes.
func (c *Core) Permits(now time.Time, holdings []coord.Holding) {
	for _, h := range holdings {
		c.table.Hold(c.steady(now), h)
	}
	c.book(now)
}

// Drawn answers Draws, in their order.
func (c *Core) Drawn(now time.Time, draws []coord.Draw, drawn []coord.Drawn) {
	for i, d := range draws {
		c.table.Drawn(c.steady(now), d.Name, drawn[i])
	}
	c.beginDelayed(now)
	c.book(now)
}

// LosePermits tells the core that this node has lost all permits. Tasks that need some are stopped, and
// keep their slots until their handlers return. Tasks that are being grabbed are handed back. The
// resulting Orders are for a new holder.
func (c *Core) LosePermits(now time.Time) {
	c.losses++
	c.table.LosePermits(c.steady(now))
	c.beginDelayed(now)
	var stops []Stop
	for _, r := range c.runs {
		if r.phase == running && r.slot.NeedsPermits() {
			stops = append(stops, Stop{r.ref.ID, ErrPermitsLost})
		}
	}
	slices.SortFunc(stops, func(a, b Stop) int { return a.ID.Compare(b.ID) })
	c.ready.Stops = append(c.ready.Stops, stops...)
}

// Override replaces the overrides of all limits, see table.Table.Override.
func (c *Core) Override(now time.Time, version uint64, live policy.Live) {
	c.table.Override(c.steady(now), version, live)
	c.beginDelayed(now)
	c.book(now)
}
