package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Demand is how many tasks of one type there are for handlers to do.
type Demand struct {
	Ready   int64     // submitted tasks
	Running int64     // tasks that nodes are processing
	Oldest  time.Time // the least Rank.ReadyAt of the submitted tasks; zero if there is none, or it was not asked for
	At      time.Time // when they were counted, by the clock of the tasks
	More    bool      // a bound was met: there may be more ready tasks, or an older one
	Paused  bool      // this node starts no tasks of the type
}

// Demand reads the demand of a type from the store, as often as it is called, within the bounds of [Cluster.Depths]. Only with oldest it
// looks for the oldest task, which may take a read for each ordering key.
func (k *Cluster) Demand(ctx context.Context, typ string, oldest bool) (Demand, error) {
	ctx, cancel := context.WithTimeout(ctx, depthsPatience)
	defer cancel()
	var found Demand
	k.engine.Decide(func(c *core.Core, now time.Time) {
		found.At = now
		for _, s := range c.Types() {
			if s.Name == typ {
				found.Running, found.Paused = int64(s.Running), s.Paused
			}
		}
	})
	d := depths{store: k.store, at: found.At, types: make(map[string]*Depth)}
	if counter, ok := k.store.(storage.LiveCounter); ok {
		counts, err := counter.Count(ctx, storage.Filter{States: []task.State{task.Submitted, task.Processing}, Types: []string{typ}})
		if err != nil {
			return Demand{}, fmt.Errorf("count the tasks of type %s: %w", typ, err)
		}
		found.Running = counts[storage.StateType{State: task.Processing, Type: typ}]
		found.Ready = counts[storage.StateType{State: task.Submitted, Type: typ}]
		if found.Ready == 0 || !oldest {
			return found, nil
		}
		if err := d.findOldest(ctx, typ); err != nil {
			return Demand{}, err
		}
		if err := d.readBehind(ctx, false); err != nil {
			return Demand{}, err
		}
	} else {
		if err := d.countType(ctx, typ); err != nil {
			return Demand{}, err
		}
		if err := d.readBehind(ctx, true); err != nil {
			return Demand{}, err
		}
		found.Ready = d.of(typ).Submitted
	}
	of := d.of(typ)
	if found.More = of.More; oldest {
		found.Oldest = of.Oldest
	}
	return found, nil
}
