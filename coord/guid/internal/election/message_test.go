//go:build !race

package election

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

func TestAMessageIsReadAsItWasWritten(t *testing.T) {
	for _, m := range []Message{
		{Hello, task.ID{1}, 1, 1}, {Here, task.ID{15: 255}, 1<<64 - 1, MaxLease}, {Bye, task.ID{7: 7}, 1 << 20, time.Second},
	} {
		b := m.Append(nil)
		if got, err := Decode(b); err != nil || got != m || len(b) > MaxSize {
			t.Errorf("%v was read as %v, %v", m, got, err)
		}
		for n := range b {
			if _, err := Decode(b[:n]); err == nil {
				t.Errorf("%d of %d bytes of %v were taken", n, len(b), m)
			}
		}
		if _, err := Decode(append(b, 0)); err == nil {
			t.Errorf("%v was taken with one byte more", m)
		}
	}
	for name, m := range map[string]Message{
		"no kind": {From: task.ID{1}, Seq: 1, Lease: 1}, "no sender": {Kind: Here, Seq: 1, Lease: 1},
		"no lease": {Kind: Here, From: task.ID{1}, Seq: 1}, "too long a lease": {Here, task.ID{1}, 1, MaxLease + 1},
	} {
		if _, err := Decode(m.Append(nil)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	other := Message{Here, task.ID{1}, 1, 1}.Append(nil)
	other[0] = 2
	if _, err := Decode(other); err == nil {
		t.Error("a message of another version was taken")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Message{Hello, task.ID{1}, 1, 1}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := Decode(b); err == nil {
			if again, err := Decode(m.Append(nil)); err != nil || again != m {
				t.Errorf("%v was read as %v, %v", m, again, err)
			}
		}
	})
}
