package publish

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/place"
	"github.com/taskengine/taskengine/task"
)

// The headers of each record, besides the ones that [Mapping] names.
const (
	idHeader   = "taskengine-task-id"
	typeHeader = "taskengine-type"
)

// traceHeaders are the headers of a task that its record has as well, by the names of W3C Trace Context.
var traceHeaders = [...]string{"traceparent", "tracestate"}

// Mapping says which record a task becomes. Places are as in limits: key, ordering_key, headers.NAME, payload and
// payload.NAME.
type Mapping struct {
	Topic     string            // the name of the topic, or
	TopicFrom string            // its place
	Key       string            // a place; "" for none
	Value     string            // a place; "" for payload
	Headers   map[string]string // places, by the names of the headers
}

// record returns the record of a task, of which the payload may be a part.
func (m *Mapping) record(t *task.Task) (*kgo.Record, error) {
	of := place.Task{Key: t.Key, OrderingKey: t.OrderingKey, Headers: t.Headers, Payload: t.Payload}
	r := &kgo.Record{Topic: m.Topic}
	if m.TopicFrom != "" {
		topic, err := of.Bytes(m.TopicFrom)
		if err != nil {
			return nil, fmt.Errorf("the topic: %w", err)
		}
		if len(topic) == 0 {
			return nil, fmt.Errorf("the topic: the task has nothing at %s", m.TopicFrom)
		}
		r.Topic = string(topic)
	}
	var err error
	if m.Key != "" {
		if r.Key, err = of.Bytes(m.Key); err != nil {
			return nil, fmt.Errorf("the key: %w", err)
		}
	}
	if r.Value, err = of.Bytes(cmp.Or(m.Value, "payload")); err != nil {
		return nil, fmt.Errorf("the value: %w", err)
	}
	r.Headers = make([]kgo.RecordHeader, 0, len(m.Headers)+len(traceHeaders)+2)
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		value, err := of.Bytes(m.Headers[name])
		if err != nil {
			return nil, fmt.Errorf("the header %s: %w", name, err)
		}
		if value != nil {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: value})
		}
	}
	for _, name := range traceHeaders {
		if value := carried(t, name); value != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
	}
	id, err := t.ID.AppendText(make([]byte, 0, 36))
	if err != nil {
		return nil, err
	}
	r.Headers = append(r.Headers,
		kgo.RecordHeader{Key: idHeader, Value: id},
		kgo.RecordHeader{Key: typeHeader, Value: []byte(t.Type)})
	return r, nil
}

// carried returns a header of a task. Case does not matter in names.
func carried(t *task.Task, name string) string {
	for given, value := range t.Headers {
		if strings.EqualFold(given, name) {
			return value
		}
	}
	return ""
}

// content identifies what a record says.
type content [sha256.Size]byte

// contentOf returns the content of a record, which does not depend on where and when it was written.
func contentOf(r *kgo.Record) content {
	h := sha256.New()
	part := func(text []byte) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		h.Write(length[:])
		h.Write(text)
	}
	part([]byte(r.Topic))
	part(r.Key)
	part(r.Value)
	for _, header := range r.Headers {
		part([]byte(header.Key))
		part(header.Value)
	}
	return content(h.Sum(nil))
}
