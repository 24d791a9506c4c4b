package task_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

func TestAChildHasOneIDForEachTimeAndNameInTheShardOfItsParent(t *testing.T) {
	ids := task.NewIDs([32]byte{1})
	at := time.Date(2030, 5, 6, 7, 8, 9, 123_456_789, time.UTC)
	seen := make(map[task.ID]bool)
	for range 50 {
		parent := ids.Next(at)
		for _, when := range []time.Time{at, at.Add(time.Microsecond), at.Add(time.Hour), time.UnixMilli(-5)} {
			for _, name := range []string{"", "a", "b"} {
				id := parent.Child(when, name)
				if id != parent.Child(when.In(time.FixedZone("far", 3600)), name) {
					t.Fatal("the same arguments gave another id")
				}
				if seen[id] {
					t.Fatalf("id %v was given for other arguments", id)
				}
				seen[id] = true
				if id.Shard() != parent.Shard() {
					t.Fatalf("child %v of %v is in another shard", id, parent)
				}
				if id[6]>>4 != 8 || id[8]>>6 != 2 {
					t.Fatalf("%v is no UUID of version 8", id)
				}
				ms := int64(0)
				for _, b := range id[:6] {
					ms = ms<<8 | int64(b)
				}
				if ms != max(0, when.UnixMilli()) {
					t.Fatalf("%v has the time %d", id, ms)
				}
			}
		}
	}
	// The id is stored, and must not change with the program.
	if got := (task.ID{15: 3}).Child(at, "name").String(); got != "01bb6008-9c23-871a-8f44-f61c31006211" {
		t.Errorf("got %s", got)
	}
}
