package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/mailbox"
	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
	connection "github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/task"
)

// DefaultPartitions is the number of partitions of a topic that is created, unless [Options] say another.
const DefaultPartitions = 16

// forgiveAfter is for how many checks it counts that a record was not confirmed.
const forgiveAfter = 10

// maxPause is how long a node waits at most before it tries again to use the brokers.
const maxPause = 2 * time.Second

// Options say which topic carries hints and messages.
type Options struct {
	Connection connection.Connection
	Topic      string
	Cluster    string // tells the cluster of the node from others that use the topic

	Create     bool // create the topic if it is missing
	Partitions int  // of a topic that is created; 0 is DefaultPartitions

	// Check is how often the brokers are asked how the topic is; 0 is a second.
	Check time.Duration
	Log   *slog.Logger // nil is not to log
}

// Bus is the connection of a node to the topic. It is safe for concurrent use.
type Bus struct {
	options   Options
	mark      mark
	log       *slog.Logger
	inProcess *local.Node     // passes hints to the subscribers
	boxes     mailbox.Boxes   // of messages
	strange   ratelog.Limiter // records that cannot be decoded
	changing  ratelog.Limiter // the reason of an outage has changed

	stop     context.CancelFunc // ends the goroutine that runs sessions
	running  sync.WaitGroup     // of it
	closed   chan struct{}
	rewanted wakeup.Signal // wanted has changed
	recheck  wakeup.Signal // something failed: the brokers are to be asked

	mu       sync.Mutex
	wanted   *task.Shards    // guarded by mu; nil is all. It is replaced, not changed
	session  *session        // guarded by mu: the one that is up; nil: none
	status   coord.BusStatus // guarded by mu, without Name and Down
	outage   error           // guarded by mu: why there is no session; nil: there is one
	unread   error           // guarded by mu: why some partitions of the session cannot be read
	unsent   error           // guarded by mu: why the last record of the session was not confirmed
	failedAt time.Time       // guarded by mu: when that was
	logged   string          // guarded by mu: the log line about the outage; "" for none
	ended    bool            // guarded by mu: closed is closed
}

var (
	_ coord.Bus       = (*Bus)(nil)
	_ coord.Selective = (*Bus)(nil)
	_ coord.Reporter  = (*Bus)(nil)
	_ coord.Messages  = (*Bus)(nil)
)

var errNotYet = errors.New("it is being connected")

// New returns a connection to the topic, which is made as soon as a broker answers, and again whenever it was
// interrupted. The caller closes it.
func New(o Options) (*Bus, error) {
	if o.Topic == "" {
		return nil, fmt.Errorf("kafka.%s: no topic is named", o.Connection.Name)
	}
	client, err := o.Connection.Client() // which finds mistakes, and does not connect
	if err != nil {
		return nil, err
	}
	client.Close()
	if o.Partitions == 0 {
		o.Partitions = DefaultPartitions
	}
	if o.Check == 0 {
		o.Check = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &Bus{
		options: o, mark: markOf(o.Cluster), log: o.Log, inProcess: local.New(),
		stop: stop, closed: make(chan struct{}), rewanted: wakeup.New(), recheck: wakeup.New(), outage: errNotYet,
	}
	b.running.Go(func() { b.run(ctx) })
	return b, nil
}

// Close waits up to a second until brokers have confirmed the last records, and disconnects.
func (b *Bus) Close() error {
	b.mu.Lock()
	ended := b.ended
	b.ended = true
	b.mu.Unlock()
	if !ended {
		close(b.closed)
		b.stop()
	}
	b.running.Wait()
	return b.inProcess.Close()
}

// run keeps a session until ctx ends.
func (b *Bus) run(ctx context.Context) {
	pause := retry.Backoff{Most: maxPause}
	for ctx.Err() == nil {
		began := time.Now()
		wasUp, err := b.runSession(ctx)
		if ctx.Err() != nil {
			return
		}
		b.failed(err)
		if wasUp && time.Since(began) >= maxPause { // else it may be up and down again and again
			pause.Reset()
		}
		_ = wakeup.Sleep(ctx, pause.Next())
	}
}

// failed notes why there is no session.
func (b *Bus) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage == nil || b.status.Since.IsZero() {
		b.status.Since = time.Now()
	}
	b.outage = err
	if text := err.Error(); text != b.logged && (b.logged == "" || b.changing.Allow()) {
		b.logged = text
		b.log.Warn("the bus is down, and it is tried again: nodes find tasks of each other in the store, within about a second", "topic", b.options.Topic, "error", err)
	}
}

// begin makes a session the one by which hints and messages are sent. Its records follow.
func (b *Bus) begin(s *session) {
	b.mu.Lock()
	text := "the bus is up"
	if b.logged != "" {
		text = "the bus is up again"
	}
	b.log.Info(text, "topic", b.options.Topic, "partitions", s.partitions)
	b.session, b.outage, b.unread, b.unsent, b.logged = s, nil, nil, nil, ""
	b.status.Since = time.Now()
	b.boxes.Begin()
	b.mu.Unlock()
	_ = b.inProcess.Publish(context.Background(), coord.WakeAll())
	b.send(s, 0, b.mark.head(kindHello, 0), 0) // which shows whether the node may write
}

// resume notifies the subscribers and receivers that messages of this moment may be lost: a connection has ended,
// and another one has taken its place.
func (b *Bus) resume(s *session) {
	b.mu.Lock()
	if b.session == s {
		b.boxes.Begin()
	}
	b.mu.Unlock()
	_ = b.inProcess.Publish(context.Background(), coord.WakeAll())
}

// end has nothing sent by a session any more.
func (b *Bus) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session = nil
}

// BusStatus implements [coord.Reporter].
func (b *Bus) BusStatus() coord.BusStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	s.Name = fmt.Sprintf("kafka.%s, topic %s", b.options.Connection.Name, b.options.Topic)
	for _, err := range []error{b.outage, b.unread, b.unsent} {
		if s.Down == nil {
			s.Down = err
		}
	}
	s.Dropped += b.inProcess.Dropped()
	return s
}

// Want implements [coord.Selective].
func (b *Bus) Want(shards *task.Shards) {
	if shards != nil {
		own := *shards
		shards = &own
	}
	b.mu.Lock()
	b.wanted = shards
	b.mu.Unlock()
	b.rewanted.Set()
}

// current returns the session by which to send; nil if there is none. It returns an error if b is closed.
func (b *Bus) current() (*session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil, coord.ErrClosed
	}
	return b.session, nil
}

// Publish implements [coord.Bus]. It does not wait for a broker: hints are dropped, and counted, while none can be
// used, and if more than a few megabytes wait. Subscribers of this node get hints by the topic, as others do.
func (b *Bus) Publish(_ context.Context, hs ...task.Hint) error {
	s, err := b.current()
	if err != nil || len(hs) == 0 {
		return err
	}
	if s == nil {
		b.drop(nil, len(hs), nil)
		return nil
	}
	byPartition := make([][]task.Hint, min(s.partitions, task.ShardCount))
	for i := range hs {
		p := partitionOf(&hs[i], s.partitions)
		byPartition[p] = append(byPartition[p], hs[i])
	}
	for p, some := range byPartition {
		for values := b.mark.hintValues(some); len(values) > 0; values = values[1:] {
			count := len(some) / len(values)
			some = some[count:]
			b.send(s, int32(p), values[0], count)
		}
	}
	return nil
}

// send sends a record with a number of hints.
func (b *Bus) send(s *session, partition int32, value []byte, count int) {
	s.client.TryProduce(context.Background(), &kgo.Record{Topic: b.options.Topic, Partition: partition, Value: value}, func(_ *kgo.Record, err error) {
		if err != nil {
			b.drop(s, count, err)
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.status.Sent += uint64(count)
		if b.session == s {
			b.unsent = nil
		}
	})
}

// drop counts hints that were not sent, or that a session has not got confirmed because of err.
func (b *Bus) drop(by *session, count int, err error) {
	b.mu.Lock()
	b.status.Dropped += uint64(count)
	isNews := err != nil && b.session == by
	if isNews {
		b.unsent, b.failedAt = b.explain(err), time.Now()
	}
	b.mu.Unlock()
	if isNews && !errors.Is(err, kgo.ErrMaxBuffered) {
		b.recheck.Set()
	}
}

// forgive forgets why a record was not confirmed, if that was long ago and can pass by itself. Otherwise it sends another
// record to learn whether the reason still holds.
func (b *Bus) forgive(s *session) {
	b.mu.Lock()
	isOld := b.unsent != nil && time.Since(b.failedAt) > forgiveAfter*b.options.Check
	_, isLasting := connection.RefusalOf(b.options.Topic, b.unsent)
	switch {
	case isOld && isLasting:
		b.failedAt = time.Now()
	case isOld:
		b.unsent = nil
	}
	b.mu.Unlock()
	if isOld && isLasting {
		b.send(s, 0, b.mark.head(kindHello, 0), 0)
	}
}

// Subscribe implements [coord.Bus].
func (b *Bus) Subscribe(ctx context.Context, fn func([]task.Hint)) error {
	return b.inProcess.Subscribe(ctx, fn)
}

// Send implements [coord.Messages]. A message is dropped while no broker can be used.
func (b *Bus) Send(topic string, message []byte) error {
	if err := coord.CheckMessage(topic, message); err != nil {
		return err
	}
	s, err := b.current()
	if s != nil {
		b.send(s, 0, b.mark.messageValue(topic, message), 0)
	}
	return err
}

// Receive implements [coord.Messages].
func (b *Bus) Receive(ctx context.Context, topic string, fn func(message []byte)) error {
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return coord.ErrClosed
	}
	box := b.boxes.Open(topic, b.session != nil)
	b.mu.Unlock()
	return box.Receive(ctx, b.closed, fn)
}
