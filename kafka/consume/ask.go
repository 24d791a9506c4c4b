package consume

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/kafka"
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

// replace has later questions of a kind use other connections than admin, on which one hangs. Questions that use them
// now end before they are closed.
func (s *localSource) replace(of purpose, admin adminClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.clients[of]
	if old == nil || old != admin.conn {
		return
	}
	s.clients[of] = nil
	s.aside.Go(func() {
		select {
		case <-time.After(answerTime):
		case <-s.stopped:
		}
		old.Close()
	})
}

// ask asks about the offsets of a partition of a topic, of all of its partitions if partition is below 0. A question without
// a quick answer is asked again on connections of its own, and if that has none, so are all later ones about the topic until
// there is an answer. While a leader answers nothing at all, it is not asked about its topics: the error is at once the same
// for all of them.
func (s *localSource) ask(ctx context.Context, topic string, partition int32, question func(context.Context, *kadm.Client) error) error {
	leaders, silent := s.leadersOf(topic, partition)
	if err := s.answer(ctx, silent); err != nil {
		return err
	}
	if !s.hangs(topic) {
		admin, err := s.admin(forOffsets)
		if err != nil {
			return err
		}
		quick, cancel := context.WithTimeout(ctx, s.pace.quick)
		err = question(quick, admin.Client)
		isOver := quick.Err() != nil
		cancel()
		if err == nil || !isOver || ctx.Err() != nil {
			return err
		}
		s.replace(forOffsets, admin)
	}
	if err := s.answer(ctx, leaders); err != nil {
		return err
	}
	return s.askApart(ctx, topic, answerTime-quickTime, question)
}

// metadata asks which topics of the source there are, and which brokers lead them. Any broker knows that, and the first that is
// asked may hang: without a quick answer others are asked as well, on further connections.
func (s *localSource) metadata(ctx context.Context) (kadm.Metadata, error) {
	type result struct {
		all kadm.Metadata
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, answerTime/quickTime)
	first, err := s.admin(forTopics)
	if err != nil {
		return kadm.Metadata{}, err
	}
	ask := func(admin adminClient) {
		all, err := topicsOf(ctx, admin, s.definition.Topics)
		results <- result{all, err}
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	asking.Go(func() { ask(first) })
	later := time.NewTicker(quickTime)
	defer later.Stop()
	for asked, pending := 1, 1; ; {
		select {
		case got := <-results:
			if pending--; got.err == nil || kafka.IsAnswer(got.err) || pending == 0 {
				return got.all, got.err
			}
		case <-later.C:
			if asked == 1 {
				s.replace(forTopics, first)
			}
			if client, err := s.connection.Client(); err == nil && asked < cap(results) {
				asked, pending = asked+1, pending+1
				asking.Go(func() {
					defer client.Close()
					ask(newAdmin(client))
				})
			}
		}
	}
}

// topicsOf returns topics, all if there are no names. A list of several is refused if the user may not see one of them: they
// are asked for one by one then.
func topicsOf(ctx context.Context, admin adminClient, names []string) (all kadm.Metadata, err error) {
	all, err = admin.Metadata(ctx, names...)
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return all, err
	}
	all.Topics = make(kadm.TopicDetails)
	for _, name := range names {
		one, err := admin.Metadata(ctx, name)
		switch {
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			all.Topics[name] = kadm.TopicDetail{Topic: name, Err: err}
		case err != nil:
			return all, err
		default:
			all.Brokers, all.Topics[name] = one.Brokers, one.Topics[name]
		}
	}
	return all, nil
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
	ctx, cancel := context.WithTimeout(ctx, quickTime)
	defer cancel()
	var stable kadm.ListedOffsets
	var errStable error
	var asking sync.WaitGroup
	asking.Go(func() { stable, errStable = admin.ListCommittedOffsets(ctx, topics...) })
	all, err := admin.ListEndOffsets(ctx, topics...)
	asking.Wait()
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
// hold back no others from then on. Brokers that are known to be silent are not waited for, but silent brokers that lead other
// partitions of a topic which has partitions elsewhere: these are asked about together, on connections of their own.
func (s *localSource) ends(ctx context.Context, topics []string, probe bool) *ends {
	e := &ends{all: make(kadm.ListedOffsets), stable: make(kadm.ListedOffsets)}
	var together, apart, parts []string
	for _, topic := range topics {
		leaders, silent := s.leadersOf(topic, -1)
		for _, id := range silent {
			s.askOf(id) // for the next time
		}
		switch {
		case len(silent) > 0 && len(silent) == len(leaders):
		case len(silent) > 0:
			parts = append(parts, topic)
		case s.hangs(topic):
			apart = append(apart, topic)
		default:
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
	if len(parts) > 0 {
		asking.Go(func() {
			if client, err := s.connection.Client(); err == nil {
				defer client.Close()
				_ = e.ask(ctx, newAdmin(client).Client, parts...) // it has answers also with an error
			}
		})
	}
	if admin, err := s.admin(forOffsets); err == nil && len(together) > 0 {
		if err = e.ask(ctx, admin.Client, together...); err != nil && ctx.Err() == nil {
			s.replace(forOffsets, admin)
			askAll(s.whatHangs(ctx, s.missing(e, together), probe))
		}
	}
	asking.Wait()
	return e
}

// whatHangs finds out why topics have no ends: it has their brokers asked whether they answer anything. With probe it waits
// for that, and returns some of the topics with brokers that do.
func (s *localSource) whatHangs(ctx context.Context, topics []string, probe bool) (hanging []string) {
	for _, topic := range topics {
		leaders, _ := s.leadersOf(topic, -1)
		for _, id := range leaders {
			s.askOf(id)
		}
	}
	if !probe {
		return nil
	}
	quick, cancel := context.WithTimeout(ctx, quickTime)
	defer cancel()
	rand.Shuffle(len(topics), func(i, j int) { topics[i], topics[j] = topics[j], topics[i] })
	for _, topic := range topics {
		if leaders, _ := s.leadersOf(topic, -1); len(hanging) < manyProbes && s.answer(quick, leaders) == nil {
			hanging = append(hanging, topic)
		}
	}
	return hanging
}

// missing returns the topics without an end of a partition.
func (s *localSource) missing(e *ends, topics []string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, topic := range topics {
		if len(e.all[topic]) < max(1, len(s.leaders[topic])) {
			all = append(all, topic)
		}
	}
	return all
}
