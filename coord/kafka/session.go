package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

const (
	patience    = 5 * time.Second        // with a broker that does not answer
	longPoll    = 500 * time.Millisecond // how long brokers wait for records; a further partition is read after that at most
	idle        = 5 * time.Minute        // how long a connection is kept that is not used
	lastRecords = time.Second            // how long the end of a node waits for its last records
	maxLag      = 10 * time.Second       // how far behind a node reads on before it goes on from the end
	maxRecords  = 10_000                 // that wait to be sent
	maxBuffered = 8 << 20                // bytes, likewise
)

// The reasons to begin anew with a topic.
var (
	errOtherTopic      = errors.New("the topic was deleted and created again")
	errOtherPartitions = errors.New("the topic has got other partitions")
	errTruncated       = errors.New("the topic has lost records")
	errLags            = errors.New("the node reads too slowly, and goes on from the end")
)

// session is the use of one topic by one client. It ends when something has changed that the client cannot follow.
type session struct {
	bus        *Bus
	client     *kgo.Client
	admin      *kadm.Client
	id         kadm.TopicID
	partitions int32
	assigned   map[int32]bool // partitions that are read; of the goroutine that runs the session
	reading    sync.WaitGroup
	failed     chan error // why the reader has ended
	broken     cuts

	mu        sync.Mutex
	positions map[int32]int64 // guarded by mu: which record of a partition is read next
	ends      []endsAt        // of the goroutine that runs the session: of the last checks, oldest first
}

// cuts notes that a connection of a client has ended. It implements [kgo.HookBrokerDisconnect].
type cuts struct {
	isOne atomic.Bool
	tell  wakeup.Signal
}

// OnBrokerDisconnect implements [kgo.HookBrokerDisconnect].
func (c *cuts) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	c.isOne.Store(true)
	c.tell.Set()
}

// endsAt is where partitions ended at a time.
type endsAt struct {
	at   time.Time
	ends map[int32]int64
}

// clientOptions returns the options of the client of a session. Hints may be lost and doubled, so neither idempotence nor the
// confirmation by several brokers is needed.
func (b *Bus) clientOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.MaxProduceRequestsInflightPerBroker(5),
		kgo.MaxBufferedRecords(maxRecords), kgo.MaxBufferedBytes(maxBuffered),
		kgo.RecordDeliveryTimeout(patience), kgo.ProduceRequestTimeout(patience),
		kgo.ConnIdleTimeout(idle), kgo.FetchMaxWait(longPoll), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords(),
	}
}

// runSession uses the topic until ctx ends or something fails, and reports whether it could.
func (b *Bus) runSession(ctx context.Context) (wasUp bool, err error) {
	s := &session{
		bus: b, assigned: map[int32]bool{}, positions: map[int32]int64{}, failed: make(chan error, 1), broken: cuts{tell: b.recheck},
	}
	if s.client, err = b.options.Connection.Client(append(b.clientOptions(), kgo.WithHooks(&s.broken))...); err != nil {
		return false, err
	}
	s.admin = kadm.NewClient(s.client)
	defer s.close()
	if err := s.open(ctx); err != nil {
		return false, err
	}
	defer b.end()
	b.begin(s)
	return true, s.follow(ctx)
}

// close ends the goroutine that reads. Records that are not confirmed by then are dropped.
func (s *session) close() {
	s.client.Close()
	s.reading.Wait()
}

// open finds or creates the topic, and begins to read it.
func (s *session) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	topic, err := s.topic(kadm.WithAuthorizedOps(ctx))
	if err != nil {
		return err
	}
	if may := topic.AuthorizedOperations; len(may) > 0 && !slices.Contains(may, kadm.OpRead) { // else it would be up until its first read
		return s.bus.explain(kerr.TopicAuthorizationFailed)
	}
	s.id, s.partitions = topic.ID, int32(len(topic.Partitions))
	found, err := s.endsOf(ctx)
	if err != nil {
		return err
	}
	s.assign(found)
	return nil
}

// follow reads the partitions that are wanted, and looks at the topic again and again.
func (s *session) follow(ctx context.Context) error {
	b := s.bus
	s.reading.Go(s.read)
	ticker := time.NewTicker(b.options.Check)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case err := <-s.failed:
			return err
		case <-ticker.C:
		case <-b.recheck.C():
			_ = wakeup.Sleep(ctx, b.options.Check/10) // more records may fail
		case <-b.rewanted.C():
		}
		if err := s.check(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	b.end()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRecords)
	defer cancel()
	_ = s.client.Flush(last) // such as the message that a leader resigns; the error is that of last
	return ctx.Err()
}

// check returns an error if the session has to begin anew.
func (s *session) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	positions := s.position()
	topic, err := s.look(ctx)
	switch {
	case err != nil:
		return err
	case topic.ID != s.id:
		return s.bus.explain(errOtherTopic)
	case len(topic.Partitions) != int(s.partitions):
		return s.bus.explain(errOtherPartitions)
	}
	found, err := s.endsOf(ctx)
	if err != nil {
		return err
	}
	for p, at := range positions {
		if end, ok := found[p]; ok && end < at {
			return s.bus.explain(errTruncated)
		}
	}
	if s.lags(time.Now(), found) {
		return s.bus.explain(errLags)
	}
	s.bus.forgive(s)
	s.bus.wake(s.assign(found))
	if s.broken.isOne.Swap(false) {
		s.bus.resume(s)
	}
	return nil
}

// lags reports whether a position is before an end that was found some time ago. It notes the ends of now.
func (s *session) lags(now time.Time, found map[int32]int64) bool {
	s.ends = append(s.ends, endsAt{now, found})
	var before map[int32]int64
	for len(s.ends) > 1 && now.Sub(s.ends[1].at) >= maxLag {
		s.ends = slices.Delete(s.ends, 0, 1)
	}
	if now.Sub(s.ends[0].at) >= maxLag {
		before = s.ends[0].ends
	}
	for p, at := range s.position() {
		if at < before[p] {
			return true
		}
	}
	return false
}

// position returns the positions of the partitions that are read.
func (s *session) position() map[int32]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.positions)
}

// assign reads the partitions that are needed now from their ends, if these are known, and no others. It returns the
// shards that are wanted of partitions that were not read before.
func (s *session) assign(ends map[int32]int64) (begun []uint16) {
	b := s.bus
	b.mu.Lock()
	wanted := b.wanted
	b.mu.Unlock()
	all := needed(wanted, s.partitions)
	added, removed := map[int32]kgo.Offset{}, []int32{}
	s.mu.Lock()
	for p := range s.assigned {
		if !all[p] {
			removed = append(removed, p)
			delete(s.assigned, p)
			delete(s.positions, p)
		}
	}
	for p := range all {
		if end, ok := ends[p]; ok && !s.assigned[p] {
			added[p] = kgo.NewOffset().At(end)
			s.assigned[p], s.positions[p] = true, end
		}
	}
	s.mu.Unlock()
	topic := b.options.Topic
	if len(removed) > 0 {
		s.client.RemoveConsumePartitions(map[string][]int32{topic: removed})
	}
	if len(added) > 0 {
		s.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: added})
	}
	for _, shard := range wanted.List() {
		if _, ok := added[ofShard(shard, s.partitions)]; ok {
			begun = append(begun, shard)
		}
	}
	return begun
}

// wake passes wakes of shards to the subscribers: hints that were published before these were read are missing.
func (b *Bus) wake(shards []uint16) {
	var wakes []task.Hint
	for _, shard := range shards {
		wakes = append(wakes, coord.Wake(shard))
	}
	_ = b.inProcess.Publish(context.Background(), wakes...)
}

// read passes on the contents of records, until the client is closed or cannot go on.
func (s *session) read() {
	for {
		fetches := s.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		for _, e := range fetches.Errors() {
			select {
			case s.failed <- s.bus.explain(fmt.Errorf("reading partition %d: %w", e.Partition, e.Err)):
			default:
			}
		}
		fetches.EachRecord(s.receive)
	}
}

// receive passes on what a record has.
func (s *session) receive(r *kgo.Record) {
	s.mu.Lock()
	if at, ok := s.positions[r.Partition]; ok {
		s.positions[r.Partition] = max(at, r.Offset+1)
	}
	s.mu.Unlock()
	if r.Attrs.IsControl() {
		return
	}
	b := s.bus
	got, err := b.mark.decode(r.Value)
	b.mu.Lock()
	b.status.Received += uint64(len(got.hints))
	if err != nil {
		b.status.Undecodable++
	} else if got.message != nil && b.session == s { // else the receivers may not know that they are connected
		b.boxes.Deliver(got.topic, got.message)
	}
	b.mu.Unlock()
	if err != nil && b.strange.Allow() {
		b.log.Warn("the bus passes over a record that it cannot decode", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "error", err, "more", b.strange.Dropped())
	}
	if len(got.hints) > 0 {
		_ = b.inProcess.Publish(context.Background(), got.hints...)
	}
}
