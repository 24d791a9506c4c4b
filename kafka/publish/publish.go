package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/task"
)

// Bounds of the records of one handler that no broker has confirmed.
const (
	maxRecords  = 1 << 20
	maxBuffered = 256 << 20 // bytes
)

// Config describes a [Handler].
type Config struct {
	Name       string // of the handler
	Connection kafka.Connection
	Mapping    Mapping
	Slots      int           // tasks at a time; at least 1
	Timeout    time.Duration // from the beginning of an attempt until a broker has confirmed its record; positive
	Ping       time.Duration // between two looks whether a broker answers, while no record is confirmed; 0 for a second

	// TransactionalID is the transactional id of this process, "" for no transactions. With it, programs that read
	// committed records see the records of an attempt only when it has succeeded. No other process may have the same id.
	TransactionalID string
}

// Handler is a [task.Pool] that sends a record for each task. Records of many tasks share requests. The handler is down
// while no broker answers. It is safe for concurrent use.
//
// An attempt that runs out of time leaves its record behind, because a record that was sent once cannot be taken back.
// The next attempt of the task at this handler waits for the same record, or gets its outcome, and sends no other one.
type Handler struct {
	config   Config
	outcomes outcomes
	pool     pool
	producer producer
	stop     context.CancelFunc
	running  sync.WaitGroup
}

var _ task.Pool = (*Handler)(nil)

// producer sends records. It answers each of them once, and may do so before put returns. put waits for ctx at most. A
// record that was sent does not depend on ctx.
type producer interface {
	put(ctx context.Context, r *kgo.Record, answer func(error))
	// ping returns an error unless a broker answers.
	ping(context.Context) error
	// close returns when all records are answered, or ctx has ended. Then the rest is answered with an error.
	close(context.Context)
}

// New returns a handler, which connects by itself. The caller closes it.
func New(c Config) (*Handler, error) {
	if c.Slots < 1 || c.Timeout <= 0 {
		return nil, errors.New("kafka: a handler needs a slot and a timeout")
	}
	if c.Ping <= 0 {
		c.Ping = time.Second
	}
	h := &Handler{config: c}
	h.pool.init(c.Slots)
	h.outcomes.init(c.Slots, c.Mapping.TopicFrom != "", h.pool.wait)
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	var err error
	if c.TransactionalID == "" {
		h.producer, err = newPlain(c)
	} else {
		h.producer, err = newTransactor(c)
	}
	if err != nil {
		stop()
		return nil, err
	}
	h.running.Go(func() { h.watch(ctx) })
	return h, nil
}

// Close returns when all records are confirmed, or ctx has ended.
func (h *Handler) Close(ctx context.Context) error {
	h.stop()
	h.running.Wait()
	h.producer.close(ctx)
	return nil
}

// Name implements [task.Pool].
func (h *Handler) Name() string { return h.config.Name }

// Handle implements [task.Handler]. The result is a JSON object with the topic, partition and offset of the record.
func (h *Handler) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	r, err := h.config.Mapping.record(t)
	if err != nil {
		return nil, task.Permanent(task.WithClass("kafka_no_record", fmt.Errorf("the task cannot become a record: %w", err)))
	}
	timer := time.NewTimer(h.config.Timeout)
	defer timer.Stop()
	o, isNew, err := h.outcomes.of(t.ID, r)
	if err != nil {
		return nil, err
	}
	if isNew {
		h.producer.put(ctx, o.record, func(err error) { h.outcomes.answer(o, err) })
	}
	var over error
	select {
	case <-o.done:
	case <-ctx.Done():
		over = context.Cause(ctx)
	case <-timer.C:
		over = errTimeout
	}
	if over != nil && h.outcomes.leave(o) {
		return nil, h.unconfirmed(over, r.Topic)
	}
	if o.err != nil {
		return nil, h.failure(r.Topic, o.err)
	}
	return placeOf(o.record), nil
}

// placeOf returns where a record was written.
func placeOf(r *kgo.Record) []byte {
	return fmt.Appendf(nil, `{"topic":%q,"partition":%d,"offset":%d}`, r.Topic, r.Partition, r.Offset) // a topic has no letters that JSON escapes
}

// watch looks whether brokers answer.
func (h *Handler) watch(ctx context.Context) {
	const patience = 5 * time.Second
	for ctx.Err() == nil {
		down := ""
		if !h.outcomes.hasConfirmed() {
			trying, cancel := context.WithTimeout(ctx, patience)
			err := h.producer.ping(trying)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				down = h.config.Connection.Unreachable(err).Error()
			}
		}
		h.pool.set(down)
		select {
		case <-ctx.Done():
		case <-time.After(h.config.Ping):
		}
	}
}

// Down returns why the handler is down; "" if it is not.
func (h *Handler) Down() string { return h.pool.reason() }
