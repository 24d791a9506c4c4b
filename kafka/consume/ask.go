package consume

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	answerTime = 10 * time.Second // of a broker
	quickTime  = 2 * time.Second  // likewise, for a question that another one may hold back, and for one that people wait for
	manyProbes = 16               // topics without an answer that are asked about on connections of their own
)

// purpose is the use of a client. A broker answers the requests on a connection in their order, so that one which hangs
// holds back those behind it. Questions that may hang have clients, and so connections, of their own.
type purpose uint8

const (
	forTopics  purpose = iota // whether there are topics: each reader asks that first
	forOffsets                // of topics that are not known to hang
	forGroup                  // the commits to the consumer group
	purposes
)

// adminClient is a client for questions.
type adminClient struct {
	*kadm.Client
	conn *kgo.Client
}

func newAdmin(c *kgo.Client) adminClient {
	admin := adminClient{kadm.NewClient(c), c}
	admin.SetTimeoutMillis(int32(answerTime.Milliseconds()))
	return admin
}

// admin returns a client for questions.
func (s *localSource) admin(of purpose) (a adminClient, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return a, errStopped
	}
	if s.clients[of] == nil {
		if s.clients[of], err = s.connection.Client(); err != nil {
			return a, err
		}
	}
	return newAdmin(s.clients[of]), nil
}

// replace has later questions about offsets use other connections than those of admin, on which one hangs. Those that use
// them now end before they are closed.
func (s *localSource) replace(admin adminClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.clients[forOffsets]
	if old == nil || old != admin.conn {
		return
	}
	s.clients[forOffsets] = nil
	s.aside.Go(func() {
		select {
		case <-time.After(answerTime):
		case <-s.stopped:
		}
		old.Close()
	})
}

// ask asks about the offsets of a topic. A question without a quick answer is asked again on connections of its own, and if
// that has none, so are all later ones about the topic until there is an answer.
func (s *localSource) ask(ctx context.Context, topic string, question func(context.Context, *kadm.Client) error) error {
	if !s.hangs(topic) {
		admin, err := s.admin(forOffsets)
		if err != nil {
			return err
		}
		quick, cancel := context.WithTimeout(ctx, quickTime)
		err = question(quick, admin.Client)
		isOver := quick.Err() != nil
		cancel()
		if err == nil || !isOver || ctx.Err() != nil {
			return err
		}
		s.replace(admin)
	}
	return s.askApart(ctx, topic, answerTime-quickTime, question)
}

// askApart asks about a topic on connections of its own, and notes whether it hangs.
func (s *localSource) askApart(ctx context.Context, topic string, limit time.Duration, question func(context.Context, *kadm.Client) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := s.connection.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	err = question(limited, newAdmin(client).Client)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil || limited.Err() == nil:
		delete(s.hanging, topic)
	case ctx.Err() == nil:
		s.hanging[topic] = true
	}
	return err
}

// hangs reports whether the last question about the offsets of a topic had no answer.
func (s *localSource) hangs(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hanging[topic]
}

// ends are the ends of partitions, as far as the brokers say.
type ends struct {
	mu     sync.Mutex
	all    kadm.ListedOffsets // guarded by mu: behind the last records
	stable kadm.ListedOffsets // guarded by mu: before the first record of a transaction that has not ended
}

// ask adds the ends of topics. It returns an error if some are missing.
func (e *ends) ask(ctx context.Context, admin *kadm.Client, topics ...string) error {
	quick, cancel := context.WithTimeout(ctx, quickTime)
	all, err := admin.ListEndOffsets(quick, topics...)
	cancel()
	quick, cancel = context.WithTimeout(ctx, quickTime) // a broker that hangs leaves no time of the first one
	defer cancel()
	stable, errStable := admin.ListCommittedOffsets(quick, topics...)
	if err == nil {
		err = errStable
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for topic, of := range all {
		e.all[topic] = of
	}
	for topic, of := range stable {
		e.stable[topic] = of
	}
	return err
}

// ends returns the ends of the partitions of topics. With probe it looks which topics without an answer hang, so that they
// hold back no others from then on.
func (s *localSource) ends(ctx context.Context, topics []string, probe bool) *ends {
	e := &ends{all: make(kadm.ListedOffsets), stable: make(kadm.ListedOffsets)}
	var together, apart []string
	for _, topic := range topics {
		if s.hangs(topic) {
			apart = append(apart, topic)
		} else {
			together = append(together, topic)
		}
	}
	var asking sync.WaitGroup
	askAll := func(topics []string) {
		for _, topic := range topics {
			asking.Go(func() {
				_ = s.askApart(ctx, topic, quickTime, func(ctx context.Context, admin *kadm.Client) error { return e.ask(ctx, admin, topic) })
			})
		}
	}
	askAll(apart[:min(len(apart), manyLooks)])
	if admin, err := s.admin(forOffsets); err == nil && len(together) > 0 {
		err = e.ask(ctx, admin.Client, together...)
		if err != nil && probe && ctx.Err() == nil {
			s.replace(admin)
			rand.Shuffle(len(together), func(i, j int) { together[i], together[j] = together[j], together[i] })
			askAll(e.missing(together, manyProbes))
		}
	}
	asking.Wait()
	return e
}

// missing returns up to most of topics that have no ends.
func (e *ends) missing(topics []string, most int) (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, topic := range topics {
		if _, ok := e.all[topic]; !ok && len(all) < most {
			all = append(all, topic)
		}
	}
	return all
}
