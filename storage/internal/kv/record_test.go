package kv

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var moment = time.Date(2024, time.March, 1, 12, 0, 0, 123456000, time.UTC)

// typical is a row like most rows that are changed.
func typical() *row {
	return &row{Task: task.Task{
		ID: task.ID{1, 2, 3}, Version: 2, State: task.Processing, Type: "payout", Shard: 7, Priority: 5, Seq: 1 << 20,
		Group: "partner-17", Attempt: 1, CreatedAt: moment, ReadyAt: moment, StartedAt: moment.Add(time.Millisecond),
		UpdatedAt: moment.Add(time.Millisecond), NextEventAt: moment.Add(time.Minute), Owner: task.ID{9}, Node: "worker-1",
		Payload: []byte(strings.Repeat("x", 100)),
	}}
}

// full is a row with every field.
func full() *row {
	r := typical()
	r.Key, r.OrderingKey, r.Crashes, r.ExpiresAt = "k", "o", 2, moment.Add(-time.Hour)
	r.Headers = map[string]string{"b": "2", "a": "1", "": ""}
	r.LastError, r.Result = "failed", []byte("r")
	r.Notes = task.NewNotes(task.Progress{Done: 7, Total: 9, Message: "pages", At: moment}, []byte("page 7"))
	r.History = []task.Attempt{{}, {Number: 3, StartedAt: moment, EndedAt: moment, Node: "a", Outcome: task.Crashed, Error: "e"}, {Node: "a"}, {Node: "b"}, {}, {Node: "b"}}
	r.Node, r.Search = "a", []task.SearchValue{task.Unread, 7, 1 << 63}
	r.Signals = &task.Signals{
		Awaits: []string{"a", ""}, Patience: time.Minute, Wake: task.Wake{By: task.BySignal, Signal: task.Signal{ID: task.ID{3}, Name: "w", At: moment, Data: []byte("d")}},
		Kept: []task.Signal{{ID: task.ID{4}, Name: "k", At: moment}}, Seen: []task.ID{{5}},
	}
	return r
}

// Most of the memory that a task takes in its life is for its rows, which are copied a few times. Go allocates a larger row in 480 bytes.
func TestARowTakes448BytesOfMemory(t *testing.T) {
	if size := unsafe.Sizeof(row{}); size > 448 {
		t.Errorf("a row has %d bytes: put its small fields side by side", size)
	}
}

func TestRecordComesBack(t *testing.T) {
	distant := full()
	distant.History, distant.Payload, distant.Result, distant.far = nil, nil, nil, far
	distant.Notes.Checkpoint, distant.Signals = nil, &task.Signals{Awaits: []string{"a"}, Wake: task.Wake{By: task.BySignal}}
	for name, r := range map[string]*row{
		"typical": typical(), "full": full(), "empty": {Task: task.Task{State: task.Waiting}}, "parts elsewhere": distant,
	} {
		var in interner
		got, err := decodeRecord(r.ID, appendRecord(nil, r), &in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, r) {
			t.Errorf("%s: got %+v, want %+v", name, got, r)
		}
	}
}

func TestRecordOfANewerProgramIsRefused(t *testing.T) {
	var in interner
	record := appendRecord(nil, typical())
	record[0]++
	if _, err := decodeRecord(task.ID{}, record, &in); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("a newer format: %v", err)
	}
	unknown := []byte{formatRecord, byte(task.Waiting), 0}
	unknown = appendNumber(unknown, uint64(firstUnknownField))
	if _, err := decodeRecord(task.ID{}, unknown, &in); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestRecordCutAnywhereIsDamaged(t *testing.T) {
	var in interner
	record := appendRecord(nil, full())
	for n := range record {
		if _, err := decodeRecord(task.ID{}, record[:n], &in); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	if _, err := decodeRecord(task.ID{}, append(record, 0), &in); !errors.Is(err, ErrDamaged) {
		t.Fatalf("one byte too long: %v", err)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendRecord(nil, typical()))
	f.Add(appendRecord(nil, full()))
	f.Add(appendHistory(nil, 0, full().History))
	f.Fuzz(func(t *testing.T, b []byte) {
		var in interner
		_, _ = decodeHistory(task.ID{}, 0, b) // must not panic
		_, _, _ = peek(task.ID{}, b, &in)
		r, err := decodeRecord(task.ID{1}, b, &in)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, storage.ErrFormat) {
				t.Fatalf("got %v", err)
			}
			return
		}
		// A record that can be read is a row, and that row can be written and read again.
		again, err := decodeRecord(task.ID{1}, appendRecord(nil, r), &in)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(normal(again), normal(r)) {
			t.Fatalf("got %+v, want %+v", again, r)
		}
	})
}

// normal replaces empty values by nil: records do not distinguish them.
func normal(r *row) *row {
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	if len(r.Payload) == 0 {
		r.Payload = nil
	}
	if len(r.Result) == 0 {
		r.Result = nil
	}
	return r
}

func BenchmarkEncode(b *testing.B) {
	submitted, running, retried := typical(), typical(), typical()
	submitted.Attempt, submitted.StartedAt, submitted.Owner, submitted.Node = 0, time.Time{}, task.ID{}, ""
	for i := range 5 {
		task.Change{Ref: retried.Ref(), To: task.Submitted, At: moment, Outcome: task.Errored, Error: "no"}.Apply(&retried.Task)
		grab := task.Change{Ref: retried.Ref(), To: task.Processing, At: moment, Owner: task.ID{9}}
		grab.Node = []string{"worker-1", "worker-2"}[i/3]
		grab.Apply(&retried.Task)
	}
	done := task.Change{Ref: running.Ref(), To: task.Done, At: moment}
	finished := typical()
	done.Apply(&finished.Task)
	for _, row := range []struct {
		name string
		*row
	}{{"submitted", submitted}, {"running", running}, {"done", finished}, {"after 5 errors", retried}} {
		b.Run(row.name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = appendRecord(buf[:0], row.row)
			}
			b.ReportMetric(float64(len(buf)), "bytes")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	record := appendRecord(nil, typical())
	var in interner
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeRecord(task.ID{}, record, &in); err != nil {
			b.Fatal(err)
		}
	}
}
