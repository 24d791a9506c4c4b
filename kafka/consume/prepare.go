package consume

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/task"
)

// maxUnread is the size of the payload of a record that could not become a task, in bytes.
const maxUnread = 16 << 20

// part are records that are committed together, and what becomes of them. It says nothing of the position before it: that
// may not be committed yet.
type part struct {
	all     []*kgo.Record
	tasks   *engine.Prepared // nil if no record becomes a task
	unread  []task.Request
	skipped uint64 // records that the filter leaves out
	read    uint64 // records that are none of the brokers' own
	next    int64  // the offset behind all
	epoch   int32  // of the leader of the last of all
}

// preparation is a part that a goroutine makes.
type preparation struct {
	done chan struct{} // closed at its end
	part *part
	err  error
}

// prepare makes a part, aside. The caller waits for it.
func (r *reader) prepare(ctx context.Context, records []*kgo.Record) *preparation {
	p := &preparation{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer func() {
			if cause := recover(); cause != nil { // it would end the process
				p.err = fmt.Errorf("make tasks of records: panic: %v\n%s", cause, debug.Stack())
			}
		}()
		p.part, p.err = r.source.part(ctx, r.engine, records)
	}()
	return p
}

func (p *preparation) wait() (*part, error) {
	<-p.done
	return p.part, p.err
}

// part makes the rows of records.
func (s *localSource) part(ctx context.Context, e *engine.Engine, records []*kgo.Record) (*part, error) {
	last := records[len(records)-1]
	p := &part{all: records, next: last.Offset + 1, epoch: last.LeaderEpoch}
	become, reqs := make([]*kgo.Record, 0, len(records)), make([]task.Request, 0, len(records)) // by the same index
	for _, one := range records {
		if one.Attrs.IsControl() {
			continue
		}
		p.read++
		req, matches, err := s.definition.Request(one)
		switch {
		case err != nil:
			if err := s.leaveUnread(p, one, err); err != nil {
				return nil, err
			}
		case !matches:
			p.skipped++
		default:
			become, reqs = append(become, one), append(reqs, req)
		}
	}
	return p, s.makeRows(ctx, e, p, become, reqs)
}

// makeRows makes the rows of requests. A request that the engine refuses becomes a record that could not be read.
func (s *localSource) makeRows(ctx context.Context, e *engine.Engine, p *part, become []*kgo.Record, reqs []task.Request) (err error) {
	if len(reqs) == 0 {
		return nil
	}
	p.tasks, err = e.Prepare(ctx, reqs...)
	if _, isInvalid := errors.AsType[*engine.InvalidRequestError](err); !isInvalid {
		return err
	}
	valid := reqs[:0]
	for i, one := range reqs { // one by one, because each call names one only
		_, err := e.Prepare(ctx, one)
		invalid, isInvalid := errors.AsType[*engine.InvalidRequestError](err)
		switch {
		case isInvalid:
			if err := s.leaveUnread(p, become[i], invalid.Err); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			valid = append(valid, one)
		}
	}
	if len(valid) == 0 {
		return nil
	}
	p.tasks, err = e.Prepare(ctx, valid...)
	return err
}

// leaveUnread has a record become a task that says why it is none of the source.
func (s *localSource) leaveUnread(p *part, one *kgo.Record, reason error) error {
	data, err := source.NewUnreadable(s.definition.Name, one, reason).Encode(maxUnread)
	if err != nil {
		return fmt.Errorf("keep a record that cannot be read: %w", err)
	}
	p.unread = append(p.unread, unreadRequest(s.definition.Name, one, data))
	return nil
}
