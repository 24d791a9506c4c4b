package core

import (
	"time"

	"github.com/taskengine/taskengine/task"
)

// Placement says which nodes may run the tasks of a queue, as far as that depends on a value of the queue. The
// zero Placement leaves it to the type.
type Placement struct {
	Nodes     string // which nodes may: the key of a selector; "" is the nodes of the type
	Elsewhere bool   // this node may not
}

// OwnedAs returns the name of the tasks of a type with a placement, for [Ownership].
func OwnedAs(typ, nodes string) string {
	if nodes == "" {
		return typ
	}
	return typ + "\x01" + nodes
}

// placementOf returns the placement of a queue.
func (c *Core) placementOf(q task.Queue) Placement {
	if c.config.Placement == nil {
		return Placement{}
	}
	return c.config.Placement(q)
}

// ownedOf returns the shards where this node owns the tasks of a queue; nil is all.
func (c *Core) ownedOf(q task.Queue) *task.Shards {
	return c.owned.Of(OwnedAs(q.Type, c.placementOf(q).Nodes))
}

// Ownership says which tasks this node starts: the tasks in some shards, by type and placement, see OwnedAs.
// The others belong to other nodes. It is an optimisation: if two nodes own the same shard for a while,
// one of them makes a grab that is too late.
type Ownership struct {
	Types  map[string]*task.Shards // nil is all
	Others *task.Shards            // the shards of names that are not in Types; nil is all
}

// Of returns the shards of a type; nil is all.
func (o *Ownership) Of(typ string) *task.Shards {
	if s, ok := o.Types[typ]; ok {
		return s
	}
	return o.Others
}

// Has reports whether this node starts the tasks of a type in a shard.
func (o *Ownership) Has(typ string, shard uint16) bool { return o.Of(typ).Has(shard) }

// Own sets which tasks this node starts from now on. The core drops the others when their turn comes.
// The shell reads the gained tasks, and passes them to the core by Observe.
func (c *Core) Own(now time.Time, o Ownership) {
	c.owned = o
	c.book(now)
}

// Owns reports whether the tasks of a queue in a shard are this node's: it starts them, and acts when
// their time comes. If no node may run them, their node does the latter alone.
func (c *Core) Owns(q task.Queue, shard uint16) bool { return c.ownedOf(q).Has(shard) }

// Starts reports whether this node starts the tasks of a queue in a shard.
func (c *Core) Starts(q task.Queue, shard uint16) bool {
	return c.Owns(q, shard) && !c.placementOf(q).Elsewhere
}

// Suspend stops the start of tasks, because the node cannot prove that it is alive, or allows it
// again. Tasks that are grabbed and have not begun are handed back.
func (c *Core) Suspend(now time.Time, suspended bool) {
	c.suspended = suspended
	c.beginDelayed(now)
	c.book(now)
}

// Reborn gives the node another incarnation, which owns the tasks that it grabs from now on.
func (c *Core) Reborn(owner task.ID) { c.config.Owner = owner }

// nodeName returns the name of this node in the rows that it grabs: one without a name that shares its store is called by its
// incarnation.
func (c *Core) nodeName() string {
	if c.config.Node == "" && c.config.Shared {
		return c.config.Owner.String()
	}
	return c.config.Node
}

// mayStart reports whether tasks may be started: the node is neither draining nor suspended.
func (c *Core) mayStart() bool { return !c.draining && !c.suspended }

// Observe passes the state of a row in the store, which any node may have changed. It returns true if
// the core has taken the row or need not, and false if the row was left to the store; the rows that
// follow it in the store up to SkipTo are then left to the store, too.
func (c *Core) Observe(now time.Time, h task.Hint) (known bool) {
	known = true
	c.overrule(now, h)
	if c.Owns(h.Queue, h.Shard) {
		known = c.schedule(now, h)
		if h.OrderingKey != "" && h.State == task.Submitted {
			c.LookForHead(h.OrderingKey)
		}
	}
	c.book(now)
	return known
}

// ObserveKey says that a task that is behind was added to an ordering key, in a queue and a shard.
func (c *Core) ObserveKey(now time.Time, q task.Queue, shard uint16, key string) {
	if c.Owns(q, shard) {
		c.LookForHead(key)
	}
	c.book(now)
}

// ObserveDue passes the due time of a row in the store. It reports whether the core keeps that. If
// not, the row was left to the store, and so are all rows that are due later.
func (c *Core) ObserveDue(h task.Hint) (known bool) {
	return !c.Owns(h.Queue, h.Shard) || c.timers.admit(h)
}

// Knows reports whether the core knows that a task is ready, or will read it from the store when its
// turn comes.
func (c *Core) Knows(tr task.Trigger) bool {
	if r, held := c.runs[tr.ID]; held {
		return !r.isNews(tr) || r.next.Version >= tr.Version
	}
	if a, held := c.held.aside[tr.ID]; held && a.trigger.Version >= tr.Version {
		return true
	}
	return c.table.Knows(tr)
}

// Behind reports whether a task that is ready is left to the store, and with it the tasks that follow it in
// its queue up to SkipTo: they are loaded when their turn comes.
func (c *Core) Behind(tr task.Trigger) bool { return c.table.Behind(tr) }

// SkipTo returns where a reader of the queue of tr goes on, in the order of the store, if tr is left to the
// store. For a type without ageing that is behind all of its rows, and else behind the rows of its
// priority.
func (c *Core) SkipTo(tr task.Trigger) task.Rank { return c.table.SkipTo(tr) }

// adopt moves a task that is about to be inserted and started here into a shard of this node.
// Nothing may bind the task to another shard.
func (c *Core) adopt(t *task.Task) {
	own := c.ownedOf(t.Queue())
	for n := range uint16(task.ShardCount) {
		if shard := (t.Shard + n) % task.ShardCount; own.Has(shard) {
			t.Shard = shard
			return
		}
	}
}

// Any returns the shards where this node starts tasks of at least one type; nil is all.
func (o *Ownership) Any() *task.Shards {
	some := o.Others
	for _, more := range o.Types {
		if some == nil || more == nil {
			return nil
		}
		both := some.With(more)
		some = &both
	}
	return some
}

// HasAny reports whether this node starts tasks of at least one type in a shard.
func (o *Ownership) HasAny(shard uint16) bool { return o.Any().Has(shard) }
