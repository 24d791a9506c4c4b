package capacity

import (
	"context"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// probe is a store that records the writes and times of its transactions.
type probe struct {
	storage.Store
	log     *journal
	mu      sync.Mutex
	commits []commit // guarded by mu
}

// commit is one transaction that has written.
type commit struct {
	called  time.Time     // of Update
	began   time.Time     // when the transaction had the store to itself
	inserts int           // rows
	swaps   int           // rows
	bytes   int           // of payload
	hold    time.Duration // from began to the return of its function
	durable time.Duration // from then until it was durable
}

// Commit implements [storage.Store].
func (p *probe) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	if _, overlaps := p.Store.(storage.NoSyncer); overlaps { // one is applied while another waits for the disk
		return storage.CommitLaterIn(ctx, p.Update, b)
	}
	return storage.CommitIn(ctx, p.Update, b)
}

// Update implements [storage.Store].
func (p *probe) Update(ctx context.Context, fn func(storage.Tx) error) error {
	c := commit{called: time.Now()}
	var ended time.Time
	err := p.Store.Update(ctx, func(tx storage.Tx) error {
		c.began = time.Now()
		err := fn(&probeTx{tx, &c})
		ended = time.Now()
		return err
	})
	if err != nil || c.inserts+c.swaps == 0 {
		return err
	}
	c.hold, c.durable = ended.Sub(c.began), time.Since(ended)
	p.mu.Lock()
	p.commits = append(p.commits, c)
	p.mu.Unlock()
	return nil
}

// take returns the records since the last call.
func (p *probe) take() (commits []commit, syncs []span, sorts []window) {
	p.mu.Lock()
	defer p.mu.Unlock()
	commits, p.commits = p.commits, nil
	syncs, sorts = p.log.take()
	return commits, syncs, sorts
}

// probeTx is a transaction that counts its rows.
type probeTx struct {
	storage.Tx
	commit *commit
}

// Insert implements [storage.Tasks].
func (t *probeTx) Insert(ctx context.Context, rows ...*task.Task) ([]storage.Inserted, error) {
	t.commit.inserts += len(rows)
	for _, r := range rows {
		t.commit.bytes += len(r.Payload)
	}
	return t.Tx.Insert(ctx, rows...)
}

// Swap implements [storage.Tasks].
func (t *probeTx) Swap(ctx context.Context, changes ...task.Change) ([]*task.Task, error) {
	t.commit.swaps += len(changes)
	return t.Tx.Swap(ctx, changes...)
}
