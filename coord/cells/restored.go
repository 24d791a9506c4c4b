package cells

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// errRestored is the cause if a node loses all that it holds because the store lacks changes that the node knows.
var errRestored = fmt.Errorf("%w: the coordinator lacks changes that it had, such as after a restore from a backup", ErrLeaseOver)

// errOlder says that an answer is older than a known state.
var errOlder = errors.New("an answer is older than the known state of a cell: all cells are read again")

// watching is one watch of the cells. The versions of cells distinguish their states as long as the store does not go back
// in time. It cannot do that while a watch goes on, so all cells are compared with the known ones when a watch begins.
type watching struct {
	stop   context.CancelFunc
	era    uint64 // guarded by Node.mu: Node.era when the watch began, and then that which its first update began
	newest uint64 // Node.newest when the watch began: all cells that it reads are as new
	whole  bool   // guarded by Node.mu: all cells were read, and changes are being reported
}

// watchLoop learns of changes of cells, until Close.
func (n *Node) watchLoop() {
	if !n.waitStart() {
		return
	}
	pause := retry.Backoff{Most: n.maxPause}
	for n.ctx.Err() == nil {
		ctx, w := n.beginWatch()
		err := n.store.Watch(ctx, live, func(u Update) {
			n.update(w, u)
			n.outage.Worked("watching")
			pause.Reset()
		})
		n.endWatch(w)
		if n.ctx.Err() == nil {
			if err != nil {
				n.outage.Failed("watching", err)
			}
			n.sleep(pause.Next(), wakeup.Signal{})
		}
	}
}

func (n *Node) beginWatch() (context.Context, *watching) {
	ctx, stop := context.WithCancel(n.ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.present.stop()
	n.present = &watching{stop: stop, era: n.era, newest: n.newest}
	return ctx, n.present
}

func (n *Node) endWatch(w *watching) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.whole = false
	w.stop()
}

// follows reports whether an update is of the present watch. One that has all cells begins an era: an answer to a request
// of an earlier era may be of a time that the store has lost. It is called with mu held.
func (n *Node) follows(w *watching, u Update) bool {
	if w.era != n.era {
		return false
	}
	if u.Whole {
		if n.contradicts(w, u) {
			n.forget()
		}
		n.era++
		w.era, w.whole = n.era, true
		n.sessionSoon.Set()
		n.newest = max(n.newest, u.At)
		clear(n.rates)
		n.proveRenewals(u.At)
	}
	return true
}

// proveRenewals has the renewals count that were answered while there was no watch, as far as the store has not lost them. It
// is called with mu held, after all cells were read.
func (n *Node) proveRenewals(at uint64) {
	s := n.session
	if s == nil {
		return
	}
	for _, r := range s.unproved {
		if r.at <= at {
			n.renewed(s, r, Renewal{})
		}
	}
	s.unproved = nil
}

// contradicts reports whether the store lacks changes that are known. It is called with mu held.
func (n *Node) contradicts(w *watching, u Update) bool {
	if u.At < w.newest {
		return true
	}
	there := make(map[string]bool, len(u.Cells))
	for _, c := range u.Cells {
		there[c.Key] = true
		known := n.cells[c.Key]
		switch {
		case known.Version == 0, known.Version > u.At: // not known, or learned since all cells were read
		case c.Version < known.Version, c.Version == known.Version && !bytes.Equal(c.Value, known.Value):
			return true
		}
	}
	for key, c := range n.cells {
		if c.Exists() && c.Version <= u.At && !there[key] && (isOf(c, permitKey) || isOf(c, settingKey)) {
			return true // they are never removed while nodes are alive
		}
	}
	return false
}

// forget loses all that the node holds, and its knowledge of the store. Other nodes may use permits that the store
// has forgotten, until they notice as well or their leases are over: so the node rests for a lease. It is called with mu
// held.
func (n *Node) forget() {
	n.options.Log.Warn("the coordinator lacks changes that this node knows, such as after a restore from a backup: the node loses its lease, and joins again after the time of a lease",
		"coordinator", n.options.Driver, "lease", n.lease)
	n.lose(errRestored)
	n.rest = time.Now().Add(n.lease)
	n.newest, n.seen, n.graves = 0, false, nil
	clear(n.cells)
	clear(n.permits)
	clear(n.doubted)
	clear(n.dirty)
	clear(n.full)
	clear(n.suspect)
	clear(n.gone)
}

// doubtAll begins the watch again, because an answer contradicts a known state. It is called with mu held.
func (n *Node) doubtAll() {
	n.present.whole = false
	n.present.stop()
}

// mayOpen waits, and reports whether the node may open a session: it has read all cells, so that it has noticed if the store
// has gone back in time, and has rested after that. The store keeps the id of the cluster again if it has lost that.
func (n *Node) mayOpen() (bool, error) {
	n.mu.Lock()
	isOpen, watches, restore, id, rest := n.session != nil, n.present.whole, n.restore, n.cluster, time.Until(n.rest)
	n.mu.Unlock()
	switch {
	case isOpen:
		return true, nil
	case restore:
		return false, n.restoreIdentity(id)
	case !watches:
		n.sleep(n.maxPause, n.sessionSoon)
		return false, nil
	case rest > 0:
		n.sleep(rest, wakeup.Signal{})
		return false, nil
	}
	return true, nil
}

// restoreIdentity has the store keep the id of the cluster that it has had.
func (n *Node) restoreIdentity(id string) error {
	ctx, cancel := n.call()
	defer cancel()
	kept, err := n.makeIdentity(ctx, id)
	if err != nil {
		return fmt.Errorf("restore the identity of the cluster: %w", err)
	}
	if kept != id {
		n.options.Log.Error("the coordinator has the identity of another cluster than before", "before", id, "now", kept)
	}
	n.mu.Lock()
	n.restore = false
	n.mu.Unlock()
	return nil
}

func (n *Node) presentEra() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.era
}

// learnIn applies the states of cells from the answers to requests of an era.
func (n *Node) learnIn(era uint64, cells ...Cell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range cells {
		if n.era == era {
			n.learn(c)
		} else {
			n.doubted[c.Key] = true
			n.syncSoon.Set()
		}
	}
}
