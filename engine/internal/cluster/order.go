package cluster

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// headsEvery is how often a node alone looks for ordering keys without a head in a store where locks of others may keep it
// from giving a key its head.
const headsEvery = time.Second

// headsLoop looks for ordering keys without a head, if the store belongs to this node alone: transactions of callers do
// not give keys their heads, and the process may have ended after the commit of one. Once is enough unless the store is a
// [storage.Locker]. Where nodes share the store, pollLoop does it again and again.
func (k *Cluster) headsLoop(ctx context.Context) {
	_, again := k.store.(storage.Locker)
	for after := ""; ctx.Err() == nil; {
		var isRead bool
		if after, isRead = k.lookForHeads(ctx, after); !isRead || after != "" {
			continue
		}
		if !again || wakeup.Sleep(ctx, headsEvery) != nil {
			return
		}
	}
}

// lookForHeads looks for ordering keys without a head behind one key, and returns where to go on; "" at the end.
// It returns false, after a rest, if the store could not be read.
func (k *Cluster) lookForHeads(ctx context.Context, after string) (next string, isRead bool) {
	var page storage.HeadlessPage
	isRead = k.engine.Read(ctx, "ordering keys without a head", func(ctx context.Context, from storage.Tasks) (err error) {
		page, err = from.Headless(ctx, after, pollPage)
		return err
	})
	if !isRead {
		return after, false
	}
	owned := k.Owned()
	k.engine.Decide(func(c *core.Core, _ time.Time) {
		for _, key := range page.Keys {
			if k.shared == nil || owned.HasAny(task.ShardOf(key)) {
				c.LookForHead(key)
			}
		}
	})
	return page.Next, true
}
