package kv

import (
	"bytes"
	"cmp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/task"
)

// text draws strings of the bytes that are escaped.
var text = rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xfe, 0xff}), 0, 6),
	func(b []byte) string { return string(b) })

func TestTextSortsAsItsBytesAndComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, tail := text.Draw(t, "a"), text.Draw(t, "b"), text.Draw(t, "tail")
		ka, kb := appendText(nil, a), appendText(nil, b)
		if got, want := bytes.Compare(ka, kb), strings.Compare(a, b); got != want {
			t.Fatalf("%q and %q compare as %d, their keys as %d", a, b, want, got)
		}
		if a != b && bytes.HasPrefix(ka, kb) {
			t.Fatalf("the key of %q begins with that of %q", a, b)
		}
		s, rest, err := cutText(append(ka, tail...))
		if err != nil || s != a || string(rest) != tail {
			t.Fatalf("%q came back as %q, %q, %v", a, s, rest, err)
		}
	})
}

func TestReadyKeysSortAsQueueAndRank(t *testing.T) {
	ready := rapid.Custom(func(t *rapid.T) task.Trigger {
		return task.Trigger{
			Ref:   task.Ref{ID: task.ID{1}, Version: rapid.Uint64().Draw(t, "version")},
			Queue: task.Queue{Type: text.Draw(t, "type"), Group: text.Draw(t, "group")},
			Rank: task.Rank{
				Priority: rapid.Uint8Max(9).Draw(t, "priority"),
				ReadyAt:  rapid.SampledFrom([]int64{-1 << 62, -1, 0, 1, 1 << 62}).Draw(t, "at"),
				Seq:      rapid.Uint64().Draw(t, "seq"),
			},
			Shard: rapid.Uint16().Draw(t, "shard"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := ready.Draw(t, "a"), ready.Draw(t, "b")
		ka, kb := appendRank(appendQueue(nil, a.Queue), a.Rank), appendRank(appendQueue(nil, b.Queue), b.Rank)
		want := cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Group, b.Group), a.Rank.Compare(b.Rank))
		if got := bytes.Compare(ka, kb); got != want {
			t.Fatalf("%+v and %+v compare as %d, their keys as %d", a, b, want, got)
		}
		queue, prefix, err := queueOf(ka)
		if err != nil || queue != a.Queue {
			t.Fatalf("%+v came back as %+v, %v", a.Queue, queue, err)
		}
		value := appendReadyValue(nil, &task.Task{ID: a.ID, Version: a.Version, Shard: a.Shard})
		if got, err := parseReady(queue, len(prefix), ka, value); err != nil || got != a {
			t.Fatalf("%+v came back as %+v, %v", a, got, err)
		}
		if bytes.Compare(ka, successor(prefix)) >= 0 {
			t.Fatalf("%x is not before the successor of %x", ka, prefix)
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("q"), []byte{})
	f.Add(appendRank(appendQueue(nil, task.Queue{Type: "a\x00", Group: "b"}), task.Rank{}), make([]byte, 18))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if len(key) == 0 {
			return
		}
		// Damaged keys are errors, never panics.
		_, _, _ = parseDueKey(key)
		_, _ = parseNeverKey(key)
		_, _ = idOf(key)
		_, _ = idOfValue(key, value)
		if queue, prefix, err := queueOf(key); err == nil {
			_, _ = parseReady(queue, len(prefix), key, value)
		}
	})
}

func TestRowsOfReservedIDsArePartsOfTheirTables(t *testing.T) {
	reserved, first := task.ReservedID("a", "b"), task.ID{5: 1}
	for _, prefix := range []byte{prefixRecord, prefixCheckpoint, prefixChildren, prefixSignals, prefixHistory, prefixResult, prefixPayload} {
		key := func(id task.ID) []byte { return append([]byte{prefix}, id[:]...) }
		next := []byte{prefix + 1}
		if end := TableEnd([]byte{prefix}); bytes.Compare(key(reserved), end) >= 0 || bytes.Compare(end, key(first)) > 0 {
			t.Errorf("%c: the first part ends at %x", prefix, end)
		}
		if end := TableEnd(key(reserved)); bytes.Compare(key(reserved), end) >= 0 || bytes.Compare(end, key(first)) > 0 {
			t.Errorf("%c: the part of a reserved id ends at %x", prefix, end)
		}
		for _, start := range [][]byte{TableEnd(key(reserved)), key(first), key(task.NewIDs([32]byte{}).Next(time.Now()))} {
			if end := TableEnd(start); !bytes.Equal(end, next) {
				t.Errorf("%c: the part with %x ends at %x", prefix, start, end)
			}
		}
	}
}
