package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	suspicion = 10 * time.Second // see suspects
	listAge   = 5 * time.Second  // how long the id of a topic is used without another look
)

// Config describes the sources of a node.
type Config struct {
	Store   storage.Store // of the engine
	Log     *slog.Logger
	Sources []Source
}

// Source is one source, and the connection to the brokers of its topics.
type Source struct {
	source.Definition
	Connection kafka.Connection
}

// Sources are the sources of a node. It is safe for concurrent use.
type Sources struct {
	all     map[string]*localSource
	stopped chan struct{}
	stop    sync.Once
}

// New returns the sources of a node. They read when an engine has their Handlers and Policies, and Apply was called.
// The caller closes them, after the engine.
func New(c Config) (*Sources, error) {
	s := &Sources{all: make(map[string]*localSource), stopped: make(chan struct{})}
	for _, one := range c.Sources {
		if err := one.Check(); err != nil {
			return nil, fmt.Errorf("source %s: %w", one.Name, err)
		}
		selects, err := one.Selection()
		if err != nil {
			return nil, fmt.Errorf("source %s: %w", one.Name, err)
		}
		of := &localSource{
			config: c, definition: one.Definition, connection: one.Connection, selects: selects, stopped: s.stopped, dialAny: one.Connection.Dial,
			suspected: make(map[place]time.Time), hanging: make(map[string]bool), conns: make(map[*brokerConn]bool), group: newGroup(), stats: newStats(), pace: defaultPace(),
		}
		if of.dialAny == nil {
			of.dialAny = (&net.Dialer{KeepAlive: answerTime / 2}).DialContext
		}
		of.connection.Dial = of.dial
		s.all[one.Name] = of
	}
	return s, nil
}

// Handlers returns the handlers of the types of the sources.
func (s *Sources) Handlers() map[string]task.Handler {
	all := make(map[string]task.Handler)
	for name, one := range s.all {
		all[TypeOf(name)] = task.HandlerFunc(one.handle)
		all[UnreadTypeOf(name)] = task.HandlerFunc(one.handleUnread)
	}
	return all
}

// Policies returns the policies of the types of the sources.
func (s *Sources) Policies() map[string]policy.Type {
	all := make(map[string]policy.Type)
	for name := range s.all {
		all[TypeOf(name)], all[UnreadTypeOf(name)] = sourcePolicy(), unreadPolicy()
	}
	return all
}

// Stop has the partitions that this node reads go to other nodes. The engine is drained afterwards.
func (s *Sources) Stop() { s.stop.Do(func() { close(s.stopped) }) }

// Close closes the connections. The engine is closed before.
func (s *Sources) Close(context.Context) error {
	s.Stop()
	for _, one := range s.all {
		one.close()
	}
	return nil
}

// localSource is a source on this node.
type localSource struct {
	config     Config
	definition source.Definition
	connection kafka.Connection // its Dial is dial
	selects    func(topic string) bool
	dialAny    func(ctx context.Context, network, address string) (net.Conn, error) // also to brokers that are known to be silent
	stopped    chan struct{}
	stats      *stats
	pace       pace

	mu        sync.Mutex
	clients   [purposes]*kgo.Client // guarded by mu: for questions; nil before the first
	hanging   map[string]bool       // guarded by mu: topics without an answer to the last question about offsets
	brokers   map[int32]*broker     // guarded by mu: of the cluster, by id
	conns     map[*brokerConn]bool  // guarded by mu: of all clients
	leaders   map[string][]int32    // guarded by mu: of topics, by name and partition; -1 if none is known
	fetcher   *feed                 // guarded by mu: nil before the first partition
	listed    map[string]string     // guarded by mu: the ids of topics, by name, at listedAt
	listedAt  time.Time             // guarded by mu
	suspected map[place]time.Time   // guarded by mu: see suspects
	group     group                 // guarded by mu
	groupLog  ratelog.Limiter       // guarded by mu
	isClosed  bool                  // guarded by mu
	aside     sync.WaitGroup        // of what does not delay readers
}

func (s *localSource) close() {
	s.mu.Lock()
	clients, fetcher := s.clients, s.fetcher
	s.clients, s.fetcher, s.isClosed = [purposes]*kgo.Client{}, nil, true
	s.mu.Unlock()
	if fetcher != nil {
		fetcher.close()
	}
	for _, client := range clients {
		if client != nil {
			client.Close()
		}
	}
	s.aside.Wait()
}

// isStopped reports whether this node stops.
func (s *localSource) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// handle is the handler of the type of a source and its partitions.
func (s *localSource) handle(ctx context.Context, t *task.Task) ([]byte, error) {
	e, ok := engine.FromContext(ctx)
	if !ok {
		return nil, errors.New("a source must be run by an engine")
	}
	if t.ID == idOfSource(s.definition.Name) {
		return nil, s.run(ctx, e, t)
	}
	return s.read(ctx, e, t)
}

// feed returns the feed of the source, which it opens first.
func (s *localSource) feed() (*feed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetcher == nil {
		f, err := openFeed(s.connection, pauseAfter)
		if err != nil {
			return nil, err
		}
		s.fetcher = f
	}
	return s.fetcher, nil
}

// listing are the topics of a source that the brokers show.
type listing struct {
	found   kadm.TopicDetails
	refused map[string]bool // topics with an error, but for missing ones
	missing error           // of one of the topics that are not found; nil: no topic that the source names is missing
}

// isGone reports whether there is no topic of this name.
func (l *listing) isGone(name string) bool {
	_, ok := l.found[name]
	return !ok && !l.refused[name]
}

// list returns the topics of the source.
func (s *localSource) list(ctx context.Context) (*listing, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	all, err := s.metadata(ctx)
	if errors.Is(err, errStopped) {
		return nil, err
	}
	if err != nil {
		return nil, s.failed("", err)
	}
	s.noteLeaders(all.Brokers, all.Topics)
	l := &listing{found: make(kadm.TopicDetails), refused: make(map[string]bool)}
	for name, one := range all.Topics {
		switch {
		case !s.selects(name):
		case s.definition.Pattern != "" && errors.Is(one.Err, kerr.UnknownTopicOrPartition): // it has just been deleted
		case one.Err != nil:
			l.missing = s.failed(name, one.Err)
			l.refused[name] = !errors.Is(one.Err, kerr.UnknownTopicOrPartition)
		case len(one.Partitions) > 0:
			l.found[name] = one
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed, s.listedAt = make(map[string]string, len(l.found)), time.Now()
	for name, one := range l.found {
		s.listed[name] = textOf(one.ID)
	}
	return l, nil
}

// topicID returns the id of a topic, "" if the brokers have none. It is an error if the topic is missing.
func (s *localSource) topicID(ctx context.Context, topic string) (string, error) {
	s.mu.Lock()
	id, ok := s.listed[topic]
	isNew := time.Since(s.listedAt) < listAge
	s.mu.Unlock()
	if !isNew {
		if _, err := s.list(ctx); err != nil {
			return "", err
		}
		s.mu.Lock()
		id, ok = s.listed[topic]
		s.mu.Unlock()
	}
	if !ok {
		return "", kerr.UnknownTopicOrPartition
	}
	return id, nil
}

func textOf(id kadm.TopicID) string {
	if id == (kadm.TopicID{}) {
		return ""
	}
	return id.String()
}

// failed returns the error of an attempt that err of a broker ends. topic may be "".
func (s *localSource) failed(topic string, err error) error {
	silent, isSilent := errors.AsType[*silentError](err)
	switch r, ok := kafka.ReadRefusalOf(topic, err); {
	case isSilent && topic != "":
		return task.WithClass("kafka_failed", fmt.Errorf("kafka.%s: topic %s: broker %d, which leads one of its partitions, gives no answer; look at %s, and whether it can be reached from here: %w",
			s.connection.Name, topic, silent.id, silent.address, silent.err))
	case ok:
		return task.WithClass(r.Class, fmt.Errorf("kafka.%s: %s: %w", s.connection.Name, r.Advice, err))
	case errors.Is(err, errStopped):
		return err
	case topic != "" && kafka.IsAnswer(err):
		return task.WithClass("kafka_failed", fmt.Errorf("kafka.%s: topic %s: %w", s.connection.Name, topic, err))
	}
	return task.WithClass("kafka_failed", s.connection.Unreachable(err))
}

// state returns the state of the source.
func (s *localSource) state(ctx context.Context, e *engine.Engine) (state, error) {
	t, err := e.Get(ctx, idOfSource(s.definition.Name))
	if err != nil {
		return state{}, fmt.Errorf("read source %s: %w", s.definition.Name, err)
	}
	return decodeState(t.Checkpoint())
}

// lost reports that records were lost.
func (s *localSource) lost(ctx context.Context, at place, l *Lost) {
	s.stats.lost(l.To - l.From)
	s.config.Log.ErrorContext(ctx, "records of a topic are lost", "source", s.definition.Name, "topic", at.topic, "partition", at.partition,
		"from", l.From, "to", l.To, "reason", l.Reason)
	task.Logger(ctx).ErrorContext(ctx, "records are lost", "from", l.From, "to", l.To, "reason", l.Reason)
}
