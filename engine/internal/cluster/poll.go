package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// pollEvery is how often a node polls the store for unclaimed tasks.
	pollEvery = time.Second
	// pollShare limits the time spent polling to one part in pollShare.
	pollShare = 20
	// pollPage is how many rows, or queues, are read at a time.
	pollPage = 1000

	// surveyScan is how many rows one part of a survey reads at most, and surveyTakes how long a
	// survey goes on that finds nothing. A whole round through the store may take many.
	surveyScan  = 10_000
	surveyTakes = pollEvery / pollShare
)

// requests are requests of other goroutines to pollLoop, to be done at once.
type requests struct {
	made wakeup.Signal

	mu     sync.Mutex
	gained []gain // guarded by mu: to read from the store
	isPoll bool   // guarded by mu: to poll the store
}

// gain asks for the rows that the node has gained.
func (r *requests) gain(g gain) {
	r.mu.Lock()
	r.gained = append(r.gained, g)
	r.mu.Unlock()
	r.made.Set()
}

// poll asks for a poll.
func (r *requests) poll() {
	r.mu.Lock()
	r.isPoll = true
	r.mu.Unlock()
	r.made.Set()
}

// take returns the requests since the previous call.
func (r *requests) take() (gained []gain, isPoll bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gained, isPoll = r.gained, r.isPoll
	r.gained, r.isPoll = nil, false
	return gained, isPoll
}

// pollLoop finds unclaimed tasks: tasks that this node owns and has no hint of. Either the node has
// just gained the shard, or the hint was lost, or a program that is not a node added the task.
func (k *Cluster) pollLoop(ctx context.Context) {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	var running []task.Ref    // the attempts that were under way when that was last checked
	var checked time.Time     // when that was: polls may be more frequent
	var cursor storage.Cursor // where the survey goes on
	var key string            // where the search for keys without a head goes on
	var cost wakeup.Cost
	for {
		isDue := false
		select {
		case <-k.requests.made.C():
		case <-timer.C:
			isDue = true
		case <-ctx.Done():
			return
		}
		gained, isPoll := k.requests.take()
		for _, g := range gained {
			k.readGained(ctx, &g)
		}
		if !isDue && !isPoll {
			continue
		}
		begin := time.Now()
		heads, surveyed, compared, ordered := k.pollHeads(ctx), true, true, true
		if begin.Sub(checked) >= pollEvery {
			key, ordered = k.lookForHeads(ctx, key)
			cursor, surveyed = k.survey(ctx, cursor)
			running, compared = k.checkRunning(ctx, running)
			k.want(none())
			checked = begin
		}
		timer.Reset(max(pollEvery, pollShare*cost.After(time.Since(begin), heads && ordered && surveyed && compared)))
	}
}

// find calls fn for one read, by [Engine].Read, and returns its result.
func (k *Cluster) find(ctx context.Context, what string, fn func(ctx context.Context, in storage.Finder) error) bool {
	return k.engine.Read(ctx, what, func(ctx context.Context, from storage.Tasks) error { return fn(ctx, from.(storage.Finder)) })
}

// pollHeads looks at the most urgent rows: the due rows, and the first ready row of each queue. It
// returns false, after a rest, if the store could not be read.
func (k *Cluster) pollHeads(ctx context.Context) bool {
	var now time.Time
	k.engine.Decide(func(_ *core.Core, at time.Time) { now = at })
	owned := k.Owned()
	q := storage.UnclaimedQuery{Shards: owned.Any(), Limit: pollPage}
	if q.Shards.IsEmpty() {
		return true
	}
	for _, state := range timedStates {
		if !k.readDue(ctx, state, q.Shards, now) {
			return false // the next poll tries it again
		}
	}
	for {
		var found storage.UnclaimedPage
		isRead := k.find(ctx, "unclaimed tasks", func(ctx context.Context, in storage.Finder) (err error) {
			found, err = in.Unclaimed(ctx, q)
			return err
		})
		if !isRead {
			return false // the next poll tries it again
		}
		var unknown []task.Queue
		k.engine.Decide(func(c *core.Core, _ time.Time) {
			for _, h := range found.Heads {
				if c.Starts(h.Queue, h.Shard) && !c.Knows(h.Trigger) && !c.Behind(h.Trigger) {
					unknown = append(unknown, h.Queue)
				}
			}
		})
		for _, queue := range unknown {
			k.readQueue(ctx, queue, k.StartableIn(queue))
		}
		if q.After = found.Next; found.Next == (task.Queue{}) {
			return true
		}
	}
}

// survey looks at all ready rows, one part with each call: it starts at a place and returns the place
// where the next call starts. So it finds rows behind a head that the core knows, and rows far behind
// rows of other nodes. A call takes little time unless it finds unclaimed tasks. It returns false,
// after a rest, if the store could not be read.
func (k *Cluster) survey(ctx context.Context, from storage.Cursor) (storage.Cursor, bool) {
	owned := k.Owned()
	q := storage.SubmittedQuery{Shards: owned.Any(), After: from, Scan: surveyScan}
	if q.Shards.IsEmpty() {
		return from, true
	}
	for begin := time.Now(); ; {
		var page []task.Hint
		var next storage.Cursor
		isRead := k.find(ctx, "unclaimed tasks", func(ctx context.Context, in storage.Finder) (err error) {
			page, next, err = in.Submitted(ctx, q)
			return err
		})
		if !isRead {
			return q.After, false // the next poll tries it again
		}
		found, left := k.observe(page)
		switch {
		case next == storage.Cursor{}:
			return next, true
		case left.Queue == next.Queue && next.Rank.Compare(left.Rank) < 0:
			next = left
		}
		if q.After = next; found == 0 && time.Since(begin) >= surveyTakes {
			return next, true
		}
	}
}

// observe passes the ready rows of a page that the core does not know to the core. It returns the number
// of rows that the core has taken. left is the last place up to which the core leaves rows of a queue to
// the store, zero if there is none.
func (k *Cluster) observe(page []task.Hint) (found int, left storage.Cursor) {
	for some := range slices.Chunk(page, pollPage) {
		k.engine.Decide(func(c *core.Core, now time.Time) {
			for _, h := range some {
				switch {
				case left.Queue == h.Queue && h.Rank.Compare(left.Rank) < 0 || !c.Starts(h.Queue, h.Shard):
				case c.Behind(h.Trigger):
					left = storage.Cursor{Queue: h.Queue, Rank: c.SkipTo(h.Trigger)}
				case !c.Knows(h.Trigger) && c.Observe(now, h):
					found++
				}
			}
		})
	}
	return found, left
}
