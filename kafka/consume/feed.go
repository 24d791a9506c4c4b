package consume

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/kafka"
)

const (
	fetchWait  = time.Second // how long a broker waits for records; a partition that is added waits for it as well
	streamMost = 5000        // a partition that has as many records waiting is full
	fetchBytes = 16 << 20    // of one fetch

	// While a partition is full, the feed is not polled. A partition that is full for pauseAfter is paused, so that it
	// delays no other for longer. The client drops the records that it has fetched of a paused partition, and fetches them
	// again.
	pauseAfter = 20 * time.Millisecond

	// feedBytes are divided among the partitions of a feed. A partition that has its share waiting is full. The
	// memory of a feed is some times as much: a fetch brings up to a share, which brokers count as it is compressed.
	feedBytes  = 64 << 20
	leastShare = 64 << 10
	mostShare  = 1 << 20
)

// A feed fetches the records of partitions with one client. Its goroutine owns the client's set of partitions: it adds
// and removes them between two polls, so that a partition which is added again gets no records that were fetched before.
type feed struct {
	client   *kgo.Client
	stop     context.CancelFunc
	done     chan struct{}
	look     chan struct{} // has an element if there are orders, or a partition is not full any more
	patience time.Duration // see pauseAfter

	mu      sync.Mutex
	orders  []feedOrder        // guarded by mu: to be carried out between two polls
	wake    context.CancelFunc // guarded by mu: ends the poll under way
	streams map[place]*stream  // guarded by mu: the added ones
	ids     map[string]string  // guarded by mu: the ids of their topics, by name; they stay when the last one is removed
}

type place struct {
	topic     string
	partition int32
}

type feedOrder struct {
	stream *stream
	what   feedVerb
}

type feedVerb uint8

const (
	add feedVerb = iota
	remove
	resume
)

// A stream has the records of one partition, in their order. One goroutine reads it.
type stream struct {
	feed  *feed
	place place
	id    string // of the topic; "" with brokers that have none
	from  kgo.Offset
	ready chan struct{} // has an element if there may be something to take
	once  sync.Once     // of close

	// guarded by feed.mu:
	records []*kgo.Record
	bytes   int           // of records
	full    bool          // from one of the limits until half of both
	paused  bool          // in the client
	end     int64         // the offset behind the last committed record, as the broker last said; -1 if unknown
	begin   int64         // the first offset of the partition, as the broker said with the first records; -1 before them, or if unknown
	next    int64         // the least offset of the next record
	err     error         // nothing follows
	gone    chan struct{} // closed when the client has the partition no more
}

// openFeed returns a feed without partitions, which pauses a partition that is full for as long as patience. The caller closes it.
func openFeed(c kafka.Connection, patience time.Duration) (*feed, error) {
	client, err := c.Client(
		c.Patient(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(fetchWait), kgo.FetchMaxPartitionBytes(mostShare), kgo.FetchMaxBytes(fetchBytes),
	)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{client: client, patience: patience, stop: stop, done: make(chan struct{}), look: make(chan struct{}, 1), streams: make(map[place]*stream), ids: make(map[string]string), wake: func() {}}
	go f.run(ctx)
	return f, nil
}

func (f *feed) close() {
	f.stop()
	<-f.done
	f.client.Close()
}

// open adds a partition, from the offset next on; epoch is that of the record before, -1 if it is not known. The caller closes the stream, before another one for the same partition is opened.
func (f *feed) open(at place, id string, next int64, epoch int32) *stream {
	s := &stream{feed: f, place: at, id: id, from: kgo.NewOffset().At(next).WithEpoch(epoch), next: next, ready: make(chan struct{}, 1), gone: make(chan struct{}), end: -1, begin: -1}
	f.order(s, add)
	return s
}

func (f *feed) order(s *stream, what feedVerb) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders = append(f.orders, feedOrder{s, what})
	f.wake()
	signal(f.look)
}

func (f *feed) run(ctx context.Context) {
	defer close(f.done)
	for {
		poll, cancel := context.WithCancel(ctx)
		f.mu.Lock()
		if f.wake = cancel; len(f.orders) > 0 {
			cancel()
		}
		f.mu.Unlock()
		fetched := f.client.PollFetches(poll)
		cancel()
		f.deliver(fetched)
		f.carryOut()
		f.awaitRoom(ctx)
		if ctx.Err() != nil {
			f.end()
			return
		}
	}
}

// deliver gives records and errors to their streams.
func (f *feed) deliver(fetched kgo.Fetches) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fetched.EachPartition(func(p kgo.FetchTopicPartition) {
		s := f.streams[place{p.Topic, p.Partition}]
		if s == nil { // it was removed, or the poll was ended
			return
		}
		if p.LastStableOffset >= 0 {
			s.end = p.LastStableOffset
		}
		s.add(&p)
		s.full = s.full || len(s.records) >= streamMost || s.bytes >= f.share()
		signal(s.ready)
	})
}

// add adds fetched records. The client may go back, without an error if it knows no epoch of the position, and before its error
// otherwise: if the log has lost records, or the broker that was asked is not current. It is called with feed.mu held.
func (s *stream) add(p *kgo.FetchTopicPartition) {
	if len(p.Records) > 0 && s.begin < 0 {
		s.begin = p.LogStartOffset
	}
	for _, r := range p.Records {
		switch {
		case s.err != nil:
		case r.Offset < s.next:
			s.err = kerr.OffsetOutOfRange
		default:
			s.records, s.next = append(s.records, r), r.Offset+1
			s.bytes += sizeOf(r)
		}
	}
	if s.err == nil {
		s.err = p.Err
	}
}

// awaitRoom waits until no partition is full, and pauses a partition that is full for too long.
func (f *feed) awaitRoom(ctx context.Context) {
	if !f.isFull() {
		return
	}
	late := time.NewTimer(f.patience)
	defer late.Stop()
	for f.isFull() {
		select {
		case <-f.look:
			f.carryOut()
		case <-late.C:
			f.pauseFull()
			return
		case <-ctx.Done():
			return
		}
	}
}

// isFull reports whether a partition is full that is not paused.
func (f *feed) isFull() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.streams {
		if s.full && !s.paused {
			return true
		}
	}
	return false
}

// pauseFull pauses the partitions that are full.
func (f *feed) pauseFull() {
	f.mu.Lock()
	defer f.mu.Unlock()
	full := make(map[string][]int32)
	for at, s := range f.streams {
		if s.full && !s.paused {
			s.paused = true
			full[at.topic] = append(full[at.topic], at.partition)
		}
	}
	f.client.PauseFetchPartitions(full)
}

// carryOut adds, removes and resumes partitions.
func (f *feed) carryOut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.orders {
		at := o.stream.place
		one := func() map[string][]int32 { return map[string][]int32{at.topic: {at.partition}} } // the client may keep it
		switch o.what {
		case add:
			if f.streams[at] != nil { // its reader has not closed it yet
				f.client.RemoveConsumePartitions(one())
				f.client.ResumeFetchPartitions(one())
			}
			f.change(at.topic, o.stream.id)
			f.streams[at] = o.stream
			f.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{at.topic: {at.partition: o.stream.from}})
		case remove:
			if f.streams[at] == o.stream {
				f.client.RemoveConsumePartitions(one())
				f.client.ResumeFetchPartitions(one())
				delete(f.streams, at)
			}
			close(o.stream.gone)
		case resume:
			if f.streams[at] == o.stream {
				f.client.ResumeFetchPartitions(one())
			}
		}
	}
	if f.orders = nil; len(f.streams) > 0 {
		f.client.UpdateFetchMaxBytes(fetchBytes, int32(f.share()))
	}
}

// share returns how many bytes of records a partition may have waiting. It is called with mu held.
func (f *feed) share() int { return min(max(feedBytes/max(1, len(f.streams)), leastShare), mostShare) }

// change has the client forget a topic if another one has its name now: the client does not go on with a topic that was
// created again. It is called with mu held.
func (f *feed) change(topic, id string) {
	if was, ok := f.ids[topic]; ok && was != id {
		f.client.PurgeTopicsFromClient(topic)
		for at, s := range f.streams {
			if at.topic == topic {
				s.err = kerr.UnknownTopicID
				signal(s.ready)
				delete(f.streams, at)
			}
		}
	}
	f.ids[topic] = id
}

// end tells all streams that nothing follows.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.streams {
		s.err = errors.Join(s.err, errStopped)
		signal(s.ready)
	}
}

// signal puts an element into a channel that holds one, if it has none.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take returns at most most records that were fetched, the error that ends the stream behind them, and the end of the
// partition, -1 if it is not known.
func (s *stream) take(most int) (records []*kgo.Record, end int64, err error) {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := min(most, len(s.records)); n < len(s.records) {
		records, s.records = s.records[:n:n], s.records[n:]
		signal(s.ready)
	} else {
		records, s.records, err = s.records, nil, s.err
	}
	for _, r := range records {
		s.bytes -= sizeOf(r)
	}
	if s.full && len(s.records) < streamMost/2 && s.bytes < f.share()/2 {
		s.full = false
		if s.paused {
			s.paused = false
			f.orders = append(f.orders, feedOrder{s, resume})
			f.wake()
		}
		signal(f.look)
	}
	return records, s.end, err
}

// beginning returns the first offset of the partition at the time of the first records; -1 if the broker did not say it.
func (s *stream) beginning() int64 {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	return s.begin
}

// close returns when the client has the partition no more, or the feed is closed. It may be called again.
func (s *stream) close() {
	s.once.Do(func() { s.feed.order(s, remove) })
	select {
	case <-s.gone:
	case <-s.feed.done:
	}
}
