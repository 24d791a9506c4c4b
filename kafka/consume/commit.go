package consume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Pauses between two looks whether a full backlog has room.
const (
	firstWait   = 50 * time.Millisecond
	longestWait = time.Second
)

// errStopped says that a reader has stopped before it could commit, because its node stops.
var errStopped = errors.New("the node stops")

// maxUnread is the size of the payload of a record that could not become a task, in bytes.
const maxUnread = 16 << 20

// part are records that are committed together, and what becomes of them.
type part struct {
	records  []*kgo.Record  // those that become tasks, by index as in requests
	requests []task.Request // for them
	unread   []task.Request
	skipped  uint64
	next     position
}

// commitAll adds the tasks of records, in transactions of a bounded size. While a backlog is full, it waits.
func (r *reader) commitAll(ctx context.Context, records []*kgo.Record) error {
	wait := firstWait
	for len(records) > 0 {
		n, size := 0, 0
		for n < min(len(records), r.most) && (n == 0 || size+sizeOf(records[n]) <= batchBytes) {
			size += sizeOf(records[n])
			n++
		}
		p, err := r.part(records[:n])
		if err == nil {
			err = r.commit(ctx, p)
		}
		switch {
		case errors.Is(err, engine.ErrBacklog) && n > 1: // a part of them may have room
			r.most = n / 2
			continue
		case errors.Is(err, engine.ErrBacklog):
			if err := r.awaitRoom(ctx, wait, err); err != nil {
				return err
			}
			wait = min(2*wait, longestWait)
			continue
		case err != nil:
			return err
		}
		records = records[n:]
		r.waits, r.most, wait = "", min(2*r.most, batchMost), firstWait
	}
	return nil
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

// part makes the requests of records.
func (r *reader) part(records []*kgo.Record) (*part, error) {
	p := &part{next: r.at}
	for _, one := range records {
		p.next.Next, p.next.Epoch = one.Offset+1, one.LeaderEpoch
		if one.Attrs.IsControl() {
			continue
		}
		p.next.Records++
		req, matches, err := r.source.definition.Request(one)
		switch {
		case err != nil:
			if err := r.leaveUnread(p, one, err); err != nil {
				return nil, err
			}
		case !matches:
			p.skipped++
		default:
			p.records, p.requests = append(p.records, one), append(p.requests, req)
		}
	}
	return p, nil
}

// leaveUnread has a record become a task that says why it is none of the source.
func (r *reader) leaveUnread(p *part, one *kgo.Record, reason error) error {
	data, err := source.NewUnreadable(r.source.definition.Name, one, reason).Encode(maxUnread)
	if err != nil {
		return fmt.Errorf("keep a record that cannot be read: %w", err)
	}
	p.unread = append(p.unread, unreadRequest(r.source.definition.Name, one, data))
	return nil
}

// commit adds the tasks of p and moves the position, in one transaction. It returns an error that wraps
// [engine.ErrBacklog], and has done nothing, if a backlog is full.
func (r *reader) commit(ctx context.Context, p *part) error {
	if len(p.requests) == 0 && len(p.unread) == 0 { // the filter has left all of them out
		p.next.Skipped += p.skipped
		r.at, r.stale = p.next, true
		return nil
	}
	next := p.next
	err := r.source.config.Store.Update(ctx, func(tx storage.Tx) error {
		receipts, err := r.submit(ctx, tx, p)
		if err != nil {
			return err
		}
		next = p.next
		next.Unread, next.Skipped = next.Unread+uint64(len(p.unread)), next.Skipped+p.skipped
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

// submit adds the tasks of p. A request that the engine refuses becomes a record that could not be read.
func (r *reader) submit(ctx context.Context, tx storage.Tx, p *part) ([]engine.Receipt, error) {
	for len(p.requests) > 0 {
		receipts, err := r.engine.SubmitTx(ctx, tx, p.requests...)
		invalid, isInvalid := errors.AsType[*engine.InvalidRequestError](err)
		switch {
		case isInvalid:
			if err := r.leaveUnread(p, p.records[invalid.Index], invalid.Err); err != nil {
				return nil, err
			}
			p.records = slices.Delete(p.records, invalid.Index, invalid.Index+1)
			p.requests = slices.Delete(p.requests, invalid.Index, invalid.Index+1)
		case err != nil && (receipts == nil || errors.Is(err, engine.ErrBacklog)):
			return nil, err
		default: // the types refuse the rest: their keys are taken, or they are late
			return receipts, nil
		}
	}
	return nil, nil
}

// save commits the position if it has changed by records that became no tasks.
func (r *reader) save(ctx context.Context) error {
	r.source.commitToGroup(place{r.of.Topic, r.of.Partition}, &r.at)
	if !r.stale || time.Since(r.saved) < idleSave {
		return nil
	}
	next := r.at
	err := r.source.config.Store.Update(ctx, func(tx storage.Tx) error { return engine.CheckpointTx(ctx, tx, next.encode()) })
	if err != nil {
		return err
	}
	r.stale, r.saved = false, time.Now()
	return nil
}
