package publish

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/task"
)

// keptOutcomes is how many outcomes are kept of records that were confirmed after their attempts had ended.
const keptOutcomes = 10_000

// outcomes has the records that were sent, by their tasks, until an attempt has got the outcome.
type outcomes struct {
	most    int             // records of one topic
	pending func(count int) // called with mu held when the number of records changes that are not confirmed and have no attempt

	mu        sync.Mutex
	byTask    map[task.ID]*outcome // guarded by mu
	topics    map[string]int       // guarded by mu: records that are not confirmed, by topic
	orphans   int                  // guarded by mu: records that are not confirmed and have no attempt
	left      []task.ID            // guarded by mu: confirmed records without an attempt, oldest first
	confirmed bool                 // guarded by mu: whether a record was confirmed since the last call of hasConfirmed
}

// outcome is a record and its outcome.
type outcome struct {
	id     task.ID
	record *kgo.Record   // of a confirmed record without an attempt only where it was written
	sum    content       // of a confirmed record without an attempt
	done   chan struct{} // closed when err is set
	err    error

	attempts int // guarded by the mutex of outcomes: attempts that wait for it
}

// init prepares for a number of slots. With several topics, one of them gets half of the slots at most: while it takes no
// records, the others go on.
func (s *outcomes) init(slots int, severalTopics bool, pending func(int)) {
	s.most, s.pending = slots, pending
	if severalTopics {
		s.most = max(1, slots/2)
	}
	s.byTask, s.topics = make(map[task.ID]*outcome), make(map[string]int)
}

// of returns the outcome of a task for an attempt, which waits for it and leaves it then. isNew says that the record is to
// be sent. An error says that the attempt cannot begin.
func (s *outcomes) of(id task.ID, r *kgo.Record) (o *outcome, isNew bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o = s.byTask[id]; o != nil {
		if o.isOf(r) {
			if o.isDone() { // its attempt takes it
				delete(s.byTask, id)
			} else if o.attempts == 0 {
				s.orphan(-1)
			}
			o.attempts++
			return o, false, nil
		}
		if !o.isDone() {
			return nil, false, fmt.Errorf("another record of this task for topic %s is still on its way: %w", o.record.Topic, task.ErrUnavailable)
		}
	}
	if s.topics[r.Topic] >= s.most {
		return nil, false, fmt.Errorf("%d records for topic %s wait for a broker to confirm them, and this handler sends no more at a time: %w",
			s.topics[r.Topic], r.Topic, task.ErrUnavailable)
	}
	o = &outcome{id: id, record: r, done: make(chan struct{}), attempts: 1}
	s.byTask[id] = o
	s.topics[r.Topic]++
	return o, true, nil
}

// isOf reports whether o is the outcome of a record like r. The mutex of outcomes must be held.
func (o *outcome) isOf(r *kgo.Record) bool {
	if o.sum != (content{}) {
		return o.sum == contentOf(r)
	}
	return contentOf(o.record) == contentOf(r)
}

func (o *outcome) isDone() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// answer sets the outcome of a record.
func (s *outcomes) answer(o *outcome, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics[o.record.Topic]--; s.topics[o.record.Topic] == 0 {
		delete(s.topics, o.record.Topic)
	}
	o.err = err
	close(o.done)
	if err == nil {
		s.confirmed = true
	}
	if o.attempts == 0 {
		s.orphan(-1)
	}
	if o.attempts > 0 || err != nil {
		delete(s.byTask, o.id)
		return
	}
	// Nothing but its place is needed any more.
	o.sum = contentOf(o.record)
	o.record = &kgo.Record{Topic: o.record.Topic, Partition: o.record.Partition, Offset: o.record.Offset}
	s.left = append(s.left, o.id)
	if len(s.left) > keptOutcomes {
		s.forget(s.left[0])
		s.left = s.left[1:]
	}
}

// forget forgets the outcome of a record without an attempt, if it is still there. mu must be held.
func (s *outcomes) forget(id task.ID) {
	if o := s.byTask[id]; o != nil && o.isDone() {
		delete(s.byTask, id)
	}
}

// leave ends the wait of an attempt, and reports whether the outcome is still open.
func (s *outcomes) leave(o *outcome) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.isDone() {
		return false
	}
	if o.attempts--; o.attempts == 0 {
		s.orphan(1)
	}
	return true
}

// orphan adds to the number of records that are not confirmed and have no attempt. mu must be held.
func (s *outcomes) orphan(n int) {
	s.orphans += n
	s.pending(s.orphans)
}

// hasConfirmed reports whether a record was confirmed since the last call.
func (s *outcomes) hasConfirmed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	confirmed := s.confirmed
	s.confirmed = false
	return confirmed
}
