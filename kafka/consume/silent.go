package consume

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// askAgain is how long an answer of a broker counts before it is asked again.
const askAgain = quickTime

// broker is a broker of the cluster. A question about a topic that has no answer may hang for the topic alone, or since its
// broker answers nothing. A broker is asked one question about itself then, however many topics it leads.
type broker struct {
	address string        // host:port
	silent  *silentError  // guarded by the mutex of the source: why it is silent; nil if that is not known
	until   time.Time     // guarded by it: how long it is not asked again
	asking  chan struct{} // guarded by it: closed when the question under way is over; nil if there is none
}

// dial connects to a broker for all clients of the source. To them, a broker that is known to be silent is one that is down:
// they ask others at once, and do not wait for it.
func (s *localSource) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := s.silenceAt(address); err != nil {
		return nil, err
	}
	conn, err := s.dialAny(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &brokerConn{Conn: conn, source: s, address: address}
	s.mu.Lock()
	s.conns[c] = true
	s.mu.Unlock()
	if err := s.silenceAt(address); err != nil { // it has become silent
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// brokerConn is a connection to a broker.
type brokerConn struct {
	net.Conn
	source  *localSource
	address string
}

func (c *brokerConn) Close() error {
	c.source.mu.Lock()
	delete(c.source.conns, c)
	c.source.mu.Unlock()
	return c.Conn.Close()
}

// silenceAt returns an error if the broker at an address is known to be silent, and has it asked again.
func (s *localSource) silenceAt(address string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, one := range s.brokers {
		if one.address == address && one.silent != nil {
			s.askBroker(id)
			return one.silent
		}
	}
	return nil
}

// connsTo returns the connections to a broker. mu must be held.
func (s *localSource) connsTo(address string) (all []*brokerConn) {
	for c := range s.conns {
		if c.address == address {
			all = append(all, c)
		}
	}
	return all
}

// silentError says that a broker answers nothing.
type silentError struct {
	id      int32
	address string
	err     error
}

func (e *silentError) Error() string {
	return fmt.Sprintf("broker %d at %s gives no answer: %v", e.id, e.address, e.err)
}

func (e *silentError) Unwrap() error { return e.err }

// noteLeaders notes which brokers there are, and which of them lead the partitions of topics.
func (s *localSource) noteLeaders(all kadm.BrokerDetails, topics kadm.TopicDetails) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.brokers
	s.brokers, s.leaders = make(map[int32]*broker, len(all)), make(map[string][]int32, len(topics))
	for _, one := range all {
		address := net.JoinHostPort(one.Host, strconv.Itoa(int(one.Port)))
		s.brokers[one.NodeID] = was[one.NodeID]
		if was[one.NodeID] == nil || was[one.NodeID].address != address {
			s.brokers[one.NodeID] = &broker{address: address}
		}
	}
	for name, one := range topics {
		leaders := make([]int32, len(one.Partitions))
		for i := range leaders {
			leaders[i] = -1
			if p, ok := one.Partitions[int32(i)]; ok && s.brokers[p.Leader] != nil {
				leaders[i] = p.Leader
			}
		}
		s.leaders[name] = leaders
	}
}

// leadersOf returns the brokers that lead a partition of a topic, all of its partitions if partition is below 0, and those
// among them that are known to be silent. Brokers that are not known are left out.
func (s *localSource) leadersOf(topic string, partition int32) (all, silent []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, id := range s.leaders[topic] {
		if id < 0 || partition >= 0 && int32(i) != partition || slices.Contains(all, id) {
			continue
		}
		all = append(all, id)
		if one := s.brokers[id]; one != nil && one.silent != nil {
			silent = append(silent, id)
		}
	}
	return all, silent
}

// answer returns an error unless each of some brokers answers anything. All that wait for a broker share one question.
func (s *localSource) answer(ctx context.Context, brokers []int32) error {
	for _, id := range brokers {
		asked := s.askOf(id)
		select {
		case <-asked:
		default:
			select {
			case <-asked:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := s.silence(id); err != nil {
			return err
		}
	}
	return nil
}

// silence returns an error if a broker is known to be silent.
func (s *localSource) silence(id int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.brokers[id]; one != nil && one.silent != nil {
		return one.silent
	}
	return nil
}

// askOf has a broker asked whether it answers, unless that has just been found out, or it is being asked. The result is closed
// when it is known.
func (s *localSource) askOf(id int32) (asked <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.askBroker(id)
}

// askBroker is askOf with mu held.
func (s *localSource) askBroker(id int32) (asked <-chan struct{}) {
	done := make(chan struct{})
	one := s.brokers[id]
	switch {
	case one == nil, s.isClosed, time.Now().Before(one.until):
		close(done)
		return done
	case one.asking != nil:
		return one.asking
	}
	one.asking = done
	s.aside.Go(func() {
		defer close(done)
		for _, c := range s.noteAnswer(id, one, s.ping(one.address)) {
			_ = c.Close() // its questions go elsewhere
		}
	})
	return done
}

// noteAnswer notes whether a broker has answered, and returns the connections to it if it has not.
func (s *localSource) noteAnswer(id int32, one *broker, err error) []*brokerConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.asking, one.until, one.silent = nil, time.Now().Add(askAgain), nil
	if !isTimeout(err) { // one that refuses is not silent, and one that is down delays nothing
		return nil
	}
	one.silent = &silentError{id, one.address, err}
	return s.connsTo(one.address)
}

func isTimeout(err error) bool {
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout() // as is the error of a context
}

// ping returns an error unless a broker answers, on a connection of its own.
func (s *localSource) ping(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime-quickTime)
	defer cancel()
	s.aside.Go(func() {
		select {
		case <-s.stopped:
			cancel()
		case <-ctx.Done():
		}
	})
	alone := s.connection
	alone.Brokers, alone.Dial = []string{address}, s.dialAny
	client, err := alone.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.SeedBrokers()[0].Request(ctx, kmsg.NewPtrApiVersionsRequest())
	return err
}
