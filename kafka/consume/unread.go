package consume

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// unreadRequest returns the request of the task of a record that could not become one of the source.
func unreadRequest(of string, r *kgo.Record, data []byte) task.Request {
	return task.Request{Type: UnreadTypeOf(of), Payload: data, Headers: map[string]string{
		source.HeaderTopic: r.Topic, source.HeaderPartition: strconv.Itoa(int(r.Partition)), source.HeaderOffset: strconv.FormatInt(r.Offset, 10),
	}}
}

// handleUnread is the handler of records that could not become tasks. It tries to make the task by the definition that
// the source has now: if that was corrected, a person who resumes the task has the record become its task. Otherwise it
// is an error.
func (s *localSource) handleUnread(ctx context.Context, t *task.Task) ([]byte, error) {
	u, err := source.DecodeUnreadable(t.Payload)
	if err != nil {
		return nil, task.Permanent(task.WithClass("kafka_unreadable", err))
	}
	r, err := u.Record()
	if err != nil {
		return nil, task.Permanent(task.WithClass("kafka_unreadable", fmt.Errorf("%s; %w", u.Reason, err)))
	}
	if len(t.History) == 0 { // it has just been tried
		return nil, task.Permanent(task.WithClass("kafka_unreadable", errors.New(u.Reason)))
	}
	req, matches, err := s.definition.Request(r)
	switch {
	case err != nil:
		return nil, task.Permanent(task.WithClass("kafka_unreadable", err))
	case !matches:
		return []byte(`{"skipped":"the filter of the source leaves the record out"}`), nil
	}
	if _, isDivided := s.config.Store.(storage.Divided); isDivided {
		return nil, s.relayOne(ctx, t, req)
	}
	return nil, task.Again(time.Time{}, task.WithTasks(req))
}
