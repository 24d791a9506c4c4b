package consume

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/storage"
)

// Pauses between two looks whether a full backlog has room.
const (
	firstWait   = 50 * time.Millisecond
	longestWait = time.Second
)

// errStopped says that a reader has stopped before it could commit, because its node stops.
var errStopped = errors.New("the node stops")

// commitAll adds the tasks of records, in transactions of a bounded size. While one commits, it prepares the next. While a
// backlog is full, it waits.
func (r *reader) commitAll(ctx context.Context, records []*kgo.Record) error {
	var ahead *preparation // of the first of records; nil if it has not begun
	defer func() {
		if ahead != nil {
			_, _ = ahead.wait() // the position does not move, so it is made again from there
		}
	}()
	wait := firstWait
	for len(records) > 0 {
		if r.source.isStopped() {
			return errStopped
		}
		if ahead == nil {
			ahead = r.prepare(ctx, r.first(records))
		}
		p, err := ahead.wait()
		ahead = nil
		if err != nil {
			return err
		}
		n := len(p.all)
		if n < len(records) && r.waits == "" {
			ahead = r.prepare(ctx, r.first(records[n:]))
		}
		err = r.commit(ctx, p)
		switch {
		case errors.Is(err, engine.ErrBacklog):
			if ahead != nil {
				_, _ = ahead.wait()
				ahead = nil
			}
			if n > 1 { // a part of them may have room
				r.most = n / 2
				continue
			}
			if err := r.awaitRoom(ctx, wait, err); err != nil {
				return err
			}
			wait = min(2*wait, longestWait)
			continue
		case err != nil:
			return err
		}
		if err := r.deliver(ctx); err != nil {
			return err
		}
		records = records[n:]
		r.waits, r.most, wait = "", min(2*r.most, batchMost), firstWait
	}
	return nil
}

// first returns the first of records, for one transaction.
func (r *reader) first(records []*kgo.Record) []*kgo.Record {
	n, size := 0, 0
	for n < min(len(records), r.most) && (n == 0 || size+sizeOf(records[n]) <= batchBytes) {
		size += sizeOf(records[n])
		n++
	}
	return records[:n]
}

// awaitRoom waits before a reader looks again whether a backlog has room. full says which one.
func (r *reader) awaitRoom(ctx context.Context, wait time.Duration, full error) error {
	r.waits = full.Error()
	r.report(ctx, r.waits)
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.source.stopped:
		return errStopped
	}
}

func sizeOf(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// commit adds the tasks of p and moves the position, in one transaction. It returns an error that wraps
// [engine.ErrBacklog], and has done nothing, if a backlog is full.
func (r *reader) commit(ctx context.Context, p *part) error {
	next := r.at
	next.Next, next.Epoch, next.Records = p.next, p.epoch, next.Records+p.read
	next.Unread, next.Skipped = next.Unread+uint64(len(p.unread)), next.Skipped+p.skipped
	if p.tasks == nil && len(p.unread) == 0 { // the filter has left all of them out
		r.at, r.stale = next, true
		return nil
	}
	tasks, err := r.relay.Place(ctx, p.tasks)
	if err != nil {
		return err
	}
	err = r.relay.Update(ctx, func(tx storage.Tx) error {
		receipts, err := r.submit(ctx, tx, tasks)
		if err != nil {
			return err
		}
		for _, one := range receipts {
			if one.Created {
				next.Tasks++
			} else {
				next.Skipped++
			}
		}
		if len(p.unread) > 0 {
			if _, err := r.engine.SubmitReservedTx(ctx, reserved.Owner{}, tx, p.unread...); err != nil {
				return err
			}
		}
		return engine.CheckpointTx(ctx, tx, next.encode())
	})
	if err != nil {
		return err
	}
	r.source.stats.committed(&r.at, &next)
	r.source.trust(place{r.of.Topic, r.of.Partition})
	r.at, r.stale, r.saved = next, false, time.Now()
	return nil
}

// submit adds tasks. The types may refuse some: their keys are taken, or they are late.
func (r *reader) submit(ctx context.Context, tx storage.Tx, tasks *engine.Relayed) ([]engine.Receipt, error) {
	receipts, err := r.relay.SubmitTx(ctx, tx, tasks)
	if err != nil && (receipts == nil || errors.Is(err, engine.ErrBacklog)) {
		return nil, err
	}
	return receipts, nil
}

// save commits the position if it has changed by records that became no tasks, or if the relay has delivered all.
func (r *reader) save(ctx context.Context) error {
	r.source.commitToGroup(place{r.of.Topic, r.of.Partition}, &r.at)
	if !r.stale && r.relay.IsEmpty() || time.Since(r.saved) < r.source.pace.save {
		return nil
	}
	return r.store(ctx, &r.at)
}

// store commits a position.
func (r *reader) store(ctx context.Context, next *position) error {
	data := next.encode()
	if err := r.relay.Update(ctx, func(tx storage.Tx) error { return engine.CheckpointTx(ctx, tx, data) }); err != nil {
		return err
	}
	r.at, r.stale, r.saved = *next, false, time.Now()
	return nil
}
