package consume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// deletedTopic is the reason of the loss of records with a topic.
const deletedTopic = "the topic was deleted before these records, and perhaps further ones, were read"

// ended is the result of a partition of a topic that was deleted, and created again.
type ended struct {
	Ended    string `json:"ended"`
	Position int64  `json:"position"`
	KnownEnd int64  `json:"last_known_end"`
	Lost     []Lost `json:"lost,omitempty"` // the newest ranges
}

// deleted ends the task of a partition of a topic that was deleted, and created again.
func (r *reader) deleted(ctx context.Context, st *state) ([]byte, error) {
	known := r.knownEnd(st)
	if err := r.lose(ctx, known); err != nil {
		return nil, err
	}
	r.source.config.Log.WarnContext(ctx, "a source has ended with a partition, because its topic was deleted and created again",
		"source", r.source.definition.Name, "topic", r.of.Topic, "partition", r.of.Partition, "position", r.at.Next, "last_known_end", known)
	return json.Marshal(ended{"the topic was deleted", r.at.Next, known, r.at.Lost})
}

// missing is the run of a partition of a missing topic. Its unread records are lost, unless it is there again soon:
// a broker that has just started may not know it yet.
func (r *reader) missing(ctx context.Context, st *state) ([]byte, error) {
	err := r.source.isThere(ctx, r.of.Topic)
	switch {
	case err == nil:
		return nil, r.again(r.engine.Now().Add(time.Second))
	case !errors.Is(err, kerr.UnknownTopicOrPartition):
		return nil, r.source.failed(r.of.Topic, err)
	}
	now := r.engine.Now()
	known := r.knownEnd(st)
	switch since := now.Sub(r.at.Missing); {
	case r.at.Missing.IsZero() || since < 0:
		r.at.Missing = now
	case since >= r.source.pace.suspicion:
		if err := r.lose(ctx, known); err != nil {
			return nil, err
		}
	}
	task.ReportProgress(ctx, uint64(r.at.Next), uint64(known), "the topic is missing")
	if r.at.Gone {
		return nil, r.again(now.Add(missing))
	}
	return nil, r.again(now.Add(r.source.pace.suspicion))
}

// back notes that a topic is there which was missing.
func (r *reader) back() {
	if r.at.Missing.IsZero() {
		return
	}
	if n := len(r.at.Lost); r.at.Gone && n > 0 && r.at.Lost[n-1].Reason == deletedTopic {
		r.at.Lost = r.at.Lost[:n-1] // it is read after all
	}
	r.at.Missing, r.at.Gone, r.stale = time.Time{}, false, true
}

// lose notes once that the unread records of the topic are lost with it.
func (r *reader) lose(ctx context.Context, end int64) error {
	if r.at.Gone {
		return nil
	}
	next, lost := r.at, Lost{From: r.at.Next, To: end, At: time.Now(), Reason: deletedTopic}
	if next.Gone = true; lost.To > lost.From {
		next.lose(lost)
	}
	if err := r.store(ctx, &next); err != nil {
		return err
	}
	if lost.To > lost.From {
		r.source.lost(ctx, place{r.of.Topic, r.of.Partition}, &lost)
	}
	return nil
}

// knownEnd returns the highest end of the partition that is known. It is not below the position.
func (r *reader) knownEnd(st *state) int64 {
	return max(r.at.Next, r.end, int64(r.task.Progress().Total), st.end(&r.of))
}

// interrupt ends the attempts that read a topic which is missing, so that they look for it. Their clients would wait for it.
func (s *localSource) interrupt(ctx context.Context, e *engine.Engine, name string, of topic) error {
	for i := range of.Partitions {
		t, err := e.Get(ctx, idOfPartition(s.definition.Name, name, of.ID, i))
		if err == nil && t.State == task.Processing {
			_, err = e.Edit(ctx, t.Ref(), engine.Edit{Interrupts: true, At: new(e.Now())})
		}
		if err != nil && !errors.Is(err, task.ErrNotFound) && !errors.Is(err, engine.ErrStale) && !errors.Is(err, engine.ErrNotAllowed) {
			return fmt.Errorf("interrupt the readers of topic %s: %w", name, err)
		}
	}
	return nil
}

// isThere asks the brokers for a topic by its name, and returns their refusal. They name a topic that the user may not see
// only then.
func (s *localSource) isThere(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	admin, err := s.admin(forTopics)
	if err != nil {
		return err
	}
	all, err := admin.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return err
	}
	return all[topic].Err
}

// noteEnds records in st the ends of partitions that the brokers report. If a topic is deleted, the ends bound its lost
// records.
func (s *localSource) noteEnds(ctx context.Context, st *state) {
	var names []string
	var count int32
	s.mu.Lock()
	for name, t := range st.Topics {
		if id, ok := s.listed[name]; ok && id == t.ID { // not another topic of this name
			names, count = append(names, name), count+t.Partitions
		}
	}
	s.mu.Unlock()
	if count > maxEnds {
		return
	}
	found := s.ends(ctx, names, true)
	for _, name := range names {
		t := st.Topics[name]
		ends := make([]int64, t.Partitions)
		copy(ends, t.Ends)
		for i := range ends {
			if end, ok := found.all.Lookup(name, int32(i)); ok && end.Err == nil {
				ends[i] = max(ends[i], end.Offset)
			}
		}
		t.Ends = ends
		st.Topics[name] = t
	}
}

// collect moves the losses with deleted topics from the tasks of their partitions, which end, to st.
func (s *localSource) collect(ctx context.Context, e *engine.Engine, st *state) error {
	for name, t := range st.Topics {
		for i := range t.Was {
			if err := s.collectOne(ctx, e, st, name, &t.Was[i]); err != nil {
				return fmt.Errorf("look for records that were lost with the deleted topic %s: %w", name, err)
			}
		}
	}
	return nil
}

// collectOne collects from the partitions of a deleted topic if all of their tasks have ended, and has the others run.
func (s *localSource) collectOne(ctx context.Context, e *engine.Engine, st *state, name string, was *former) error {
	var all []lostOf
	isOver := true
	for i := range was.Open {
		t, err := e.Get(ctx, idOfPartition(s.definition.Name, name, was.ID, i))
		switch {
		case errors.Is(err, task.ErrNotFound):
			continue
		case err != nil:
			return err
		case t.State == task.Waiting: // perhaps until the end of a pause
			isOver = false
			if _, err := e.Edit(ctx, t.Ref(), engine.Edit{At: new(e.Now())}); err != nil && !errors.Is(err, engine.ErrStale) && !errors.Is(err, engine.ErrNotAllowed) {
				return err
			}
		case t.State.Live(), t.State == task.Error:
			isOver = false
		default:
			var end ended
			_ = json.Unmarshal(t.Result, &end) // a person who has ended the task has left no result
			for _, one := range end.Lost {
				all = append(all, lostOf{name, i, one})
			}
		}
	}
	if isOver {
		st.Lost = append(slices.Clone(st.Lost), all...)
		st.Lost = st.Lost[max(0, len(st.Lost)-maxLostOf):]
		was.Open, was.Ends = 0, nil
	}
	return nil
}
