package client

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/task"
)

// decoder makes the types of this package from the messages of one answer. An absent message gives the zero value.
type decoder struct {
	err error // the first id that is none
}

// id parses an id; zero for the empty text.
func (d *decoder) id(text string) task.ID {
	if text == "" {
		return task.ID{}
	}
	id, err := task.ParseID(text)
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("taskengine: a node has answered with the id %.80q: %w", text, err)
	}
	return id
}

// all converts each element; nil for none.
func all[M, T any](ms []M, convert func(M) T) []T {
	if len(ms) == 0 {
		return nil
	}
	ts := make([]T, len(ms))
	for i, m := range ms {
		ts[i] = convert(m)
	}
	return ts
}

// timeOf returns the time of a message; zero if it is absent.
func timeOf(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}

// stamp returns the message of a time; nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// span returns the message of a duration; nil for 0.
func span(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// priorityOf returns a priority. One that is too large for the type stays out of range.
func priorityOf(p uint32) uint8 { return uint8(min(p, math.MaxUint8)) }
