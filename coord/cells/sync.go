package cells

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// maxCells is the largest number of cells that a request of the node changes, beside cells of members, roles and holders. See
// requestSize.
const maxCells = 256

// requestShare is how many times less than the lease a request should take: renewals of the session may wait for it.
const requestShare = 12

// plan is a request that brings cells to the state that the node wants.
type plan struct {
	session *session
	era     uint64 // Node.era when it was made
	changes []Change
	most    int                             // the largest number of changes, beside changes of members, roles and holders
	size    int                             // of the changes, in bytes
	then    []func(swapped bool, err error) // called with mu held, after the cell was learned; after an error the change may have been made
}

// add adds a change to a plan.
func (p *plan) add(c Change, then func(swapped bool, err error)) {
	p.changes = append(p.changes, c)
	p.size += c.Size()
	p.then = append(p.then, then)
}

// isFull reports whether further changes are for the next request.
func (p *plan) isFull() bool { return len(p.changes) >= p.most || p.size >= requestSize }

// syncLoop changes the cells of the node until they are as the node wants, whenever something has changed, until Close.
// Only one request is under way at a time.
func (n *Node) syncLoop() {
	if !n.waitStart() {
		return
	}
	pause := retry.Backoff{Most: n.maxPause}
	var conflicts conflicts
	batch := retry.NewBatch(maxCells)
	for !n.isClosed() {
		start := time.Now()
		changed, busy, lost, err := n.sync(batch.Size())
		if changed > 0 {
			batch.Took(time.Since(start), n.realLease()/requestShare, changed)
		}
		switch {
		case err != nil:
			n.outage.Failed("changing cells", err)
			n.sleep(pause.Next(), wakeup.Signal{})
		case lost:
			pause.Reset()
			n.sleep(conflicts.pause(time.Since(start), n.maxPause/8), wakeup.Signal{})
		case busy:
			conflicts = 0
			pause.Reset()
			n.outage.Worked("changing cells")
		default:
			n.outage.Worked("changing cells") // nothing is to be changed, so nothing fails
			n.sleep(time.Hour, n.syncSoon)
		}
	}
}

// conflicts is how many requests in a row found that other nodes had changed a cell.
type conflicts int

// manyConflicts is the number from which on more conflicts make no difference.
const manyConflicts conflicts = 5

// pause returns how long to wait after a request that took some time, and found that: a random time, which is longer the
// more conflicts there were, so that one of the nodes is alone.
func (c *conflicts) pause(took, most time.Duration) time.Duration {
	*c = min(*c+1, manyConflicts)
	return rand.N(min(took<<*c, most) + 1)
}

// sync makes one request, with up to most changes of permits. It returns how many changes the request had, and reports
// whether there was one to make, and whether other nodes had changed a cell before.
func (n *Node) sync(most int) (changed int, busy, lost bool, err error) {
	ctx, cancel := n.call()
	defer cancel()
	if read, err := n.readDoubted(ctx); read || err != nil {
		return 0, read, false, err
	}
	p := n.plan(most)
	if p == nil {
		return 0, false, false, nil
	}
	busy, lost, err = n.carryOut(ctx, p)
	return len(p.changes), busy, lost, err
}

// carryOut makes the request of a plan: see sync.
func (n *Node) carryOut(ctx context.Context, p *plan) (busy, lost bool, err error) {
	outcomes, err := p.session.Swap(ctx, p.changes...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session != p.session { // the session was lost, and its changes with it
		return true, false, nil
	}
	if errors.Is(err, ErrOver) {
		n.lose(ErrLeaseOver)
		return true, false, nil
	}
	if n.era != p.era { // the answer may be of a time that the store has lost
		err = errOlder
	}
	var large *TooLargeError
	isLarge := errors.As(err, &large)
	older := false
	for i, then := range p.then {
		switch {
		case isLarge && p.changes[i].Was.Key == large.Key:
			then(false, nil)
		case err != nil:
			n.doubted[p.changes[i].Was.Key] = true
			then(false, err)
		default:
			n.learn(outcomes[i].Now)
			lost = lost || !outcomes[i].Swapped
			older = older || n.isOlder(p.changes[i], outcomes[i])
			then(outcomes[i].Swapped, nil)
		}
	}
	if n.era != p.era {
		return true, false, nil // the cells are read, because they are in doubt
	}
	if older {
		n.doubtAll()
		return true, false, errOlder
	}
	if isLarge && mayRefuse(large.Key) {
		return true, lost, nil // the next plan does without it
	}
	return true, lost, err
}

// isOlder reports whether the outcome of a change is of another state of the cell than the change, and nothing was learned
// from it: the next plan would be the same. It is called with mu held, after the outcome was learned.
func (n *Node) isOlder(c Change, o Outcome) bool {
	return (o.Swapped && (c.Was.Exists() || c.Value != nil) || o.Now.Version != c.Was.Version) && n.cells[c.Was.Key].Version == c.Was.Version
}

// readDoubted reads the cells in an unknown state, and reports whether there were any.
func (n *Node) readDoubted(ctx context.Context) (bool, error) {
	n.mu.Lock()
	era := n.era
	var keys []string
	for key := range n.doubted {
		keys = append(keys, key)
	}
	suspects := 0
	if n.seen {
		for id := range n.suspect {
			keys = append(keys, holderKey+id.String())
			suspects++
		}
	}
	n.mu.Unlock()
	if len(keys) == 0 {
		return false, nil
	}
	slices.Sort(keys)
	cells, err := n.store.Read(ctx, keys...)
	if err != nil {
		return true, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.era != era { // the answer may be of a time that the store has lost
		return true, nil
	}
	for _, c := range cells {
		delete(n.doubted, c.Key)
		n.learn(c)
	}
	n.settleSuspects(cells)
	return true, nil
}

// plan returns the next request, with up to most changes of permits, or nil if everything is as the node wants it.
func (n *Node) plan(most int) *plan {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session == nil || n.session.proof == (lease.Proof{}) || n.isClosed() {
		return nil
	}
	p := &plan{session: n.session, era: n.era, most: most}
	n.planMembers(p)
	n.planRoles(p)
	n.planHolders(p)
	n.planStrays(p)
	if len(p.changes) > 0 { // permits are contended, and follow when these few are changed
		n.syncSoon.Set()
		return p
	}
	if n.planPermits(p); len(p.changes) > 0 {
		return p
	}
	return nil
}

// learnStray notes a cell of the session. A request that is late may make one when its member or holder has ended. It is
// called with mu held.
func (n *Node) learnStray(c Cell, owner string) {
	if s := n.session; s != nil && c.Exists() && owner == s.id.String() {
		s.strays[c.Key] = true
	}
}

// planStrays removes cells of the session that belong to ended members and holders. It is called with mu held, after
// planMembers and planHolders.
func (n *Node) planStrays(p *plan) {
	for key := range p.session.strays {
		delete(p.session.strays, key)
		if c := n.cellOf(key); c.Exists() && !n.isWanted(key) {
			p.add(Change{Was: c}, func(swapped bool, _ error) {
				if !swapped && n.session == p.session {
					p.session.strays[key] = true
				}
				n.syncSoon.Set()
			})
		}
	}
}

// isWanted reports whether a cell is that of a member or of a holder of the node. It is called with mu held.
func (n *Node) isWanted(key string) bool {
	if part, isMember := strings.CutPrefix(key, memberKey); isMember {
		id, err := task.ParseID(part)
		return err != nil || n.members[id] != nil
	}
	id, err := task.ParseID(strings.TrimPrefix(key, holderKey))
	return err != nil || n.holders[id] != nil || slices.ContainsFunc(n.ended, func(h *holder) bool { return h.id == id })
}
