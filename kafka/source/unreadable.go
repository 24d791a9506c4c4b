package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// MinUnreadable is the least size, in bytes, that an encoded [Unreadable] of a source with a valid name always fits into.
const MinUnreadable = 8 << 10

// maxReason is how much of a reason is kept if an encoded record is too large, in bytes.
const maxReason = 512

// Unreadable is a record that cannot become a task, with the reason. It keeps the record, so that it can be tried again
// when the source is corrected, also when its topic does not have it any more.
type Unreadable struct {
	Source     string
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  time.Time // with milliseconds
	Key, Value []byte    // nil is none, which differs from an empty one
	Headers    []kgo.RecordHeader
	Reason     string
	Truncated  bool // the value is left out, because it is too large; if that is not enough, also the headers and the key
}

// NewUnreadable returns r as a record that the source cannot read for a reason. It shares the bytes of r.
func NewUnreadable(source string, r *kgo.Record, reason error) *Unreadable {
	return &Unreadable{
		Source: source, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp,
		Key: r.Key, Value: r.Value, Headers: r.Headers, Reason: reason.Error(),
	}
}

// Record returns the record that u keeps, which shares its bytes. It is an error if a part was left out.
func (u *Unreadable) Record() (*kgo.Record, error) {
	r := &kgo.Record{
		Topic: u.Topic, Partition: u.Partition, Offset: u.Offset, Timestamp: u.Timestamp,
		Key: u.Key, Value: u.Value, Headers: u.Headers,
	}
	if u.Truncated {
		return nil, fmt.Errorf("%s: the record was too large to be kept with its error; read it from the topic", Where(r))
	}
	return r, nil
}

// envelope is an [Unreadable] as JSON.
type envelope struct {
	Source    string   `json:"source"`
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp_ms"` // since the beginning of 1970, UTC
	Reason    string   `json:"reason"`
	Truncated bool     `json:"truncated,omitempty"`
	Key       []byte   `json:"key"`   // base64, or null
	Value     []byte   `json:"value"` // base64, or null
	Headers   []header `json:"headers,omitempty"`
}

// header is a header of a record as JSON.
type header struct {
	Name   string `json:"name,omitempty"`
	Binary []byte `json:"name_base64,omitempty"` // instead, if it is not UTF-8
	Value  []byte `json:"value"`                 // base64, or null
}

// Encode returns u as JSON of at most maxSize bytes, which [DecodeUnreadable] reads. A record that is too large for this
// lacks its value, and if necessary its headers and its key as well; Truncated is true then. maxSize is at least
// MinUnreadable.
func (u *Unreadable) Encode(maxSize int) ([]byte, error) {
	e := envelope{
		Source: u.Source, Topic: u.Topic, Partition: u.Partition, Offset: u.Offset, Timestamp: u.Timestamp.UnixMilli(),
		Reason: u.Reason, Truncated: u.Truncated, Key: u.Key, Value: u.Value,
	}
	for _, h := range u.Headers {
		if utf8.ValidString(h.Key) {
			e.Headers = append(e.Headers, header{Name: h.Key, Value: h.Value})
		} else {
			e.Headers = append(e.Headers, header{Binary: []byte(h.Key), Value: h.Value})
		}
	}
	for _, leaveOut := range []func(){
		func() {},
		func() { e.Value, e.Truncated = nil, true },
		func() { e.Headers, e.Key, e.Reason = nil, nil, short(e.Reason) },
	} {
		leaveOut()
		if len(e.Key)+len(e.Value)+len(e.Reason) > maxSize {
			continue
		}
		b, err := json.Marshal(&e)
		if err != nil {
			return nil, err
		}
		if len(b) <= maxSize {
			return b, nil
		}
	}
	return nil, fmt.Errorf("an unreadable record of source %s does not fit into %d bytes", u.Source, maxSize)
}

// short returns the beginning of a text.
func short(s string) string {
	if len(s) <= maxReason {
		return s
	}
	return strings.ToValidUTF8(s[:maxReason], "") + "..."
}

// DecodeUnreadable reads what [Unreadable.Encode] has written. It ignores fields that it does not know.
func DecodeUnreadable(b []byte) (*Unreadable, error) {
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("this is not an unreadable record: %w", err)
	}
	if e.Topic == "" || e.Partition < 0 || e.Offset < 0 {
		return nil, errors.New("this is not an unreadable record: it lacks a topic, partition and offset")
	}
	u := &Unreadable{
		Source: e.Source, Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Timestamp: time.UnixMilli(e.Timestamp),
		Reason: e.Reason, Truncated: e.Truncated, Key: e.Key, Value: e.Value,
	}
	for _, h := range e.Headers {
		name := h.Name
		if h.Binary != nil {
			name = string(h.Binary)
		}
		u.Headers = append(u.Headers, kgo.RecordHeader{Key: name, Value: h.Value})
	}
	return u, nil
}
