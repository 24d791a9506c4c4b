package task_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/task"
)

// full returns a task in which no field is zero.
func full() *task.Task {
	at := task.Stamp(time.Unix(1_700_000_000, 0))
	return &task.Task{
		ID: task.ID{1}, Version: 7, State: task.Processing,
		Type: "mail", Shard: 3, Priority: 2, Group: "g", Key: "k", OrderingKey: "o", Turn: task.Head, Inherits: true, Boost: 1, Seq: 11,
		Attempt: 4, Crashes: 1,
		CreatedAt: at, ReadyAt: at.Add(1000), NextEventAt: at.Add(2000), ExpiresAt: at.Add(3000), StartedAt: at.Add(4000), UpdatedAt: at.Add(5000),
		Owner: task.ID{2}, Node: "n", Headers: map[string]string{"a": "b"}, Payload: []byte("p"), Result: []byte("r"), Tombstone: true,
		LastError: "e", History: []task.Attempt{{Number: 1, Error: "e"}},
		Signals: &task.Signals{
			Awaits: []string{"a"}, Patience: 1, Wake: task.Wake{By: task.BySignal, Signal: task.Signal{ID: task.ID{3}, Name: "w", At: at, Data: []byte("d")}},
			Kept: []task.Signal{{ID: task.ID{4}, Name: "k", At: at, Data: []byte("e")}}, Seen: []task.ID{{5}},
		},
		Parent: &task.Parent{ID: task.ID{6}, Name: "p", Index: 1},
		Search: []task.SearchValue{7, 9},
		Children: &task.Children{Sets: []task.ChildSet{{
			Name: "c", Added: 2, Done: 1, Reported: []byte{1}, Shards: []byte{4, 5},
		}}},
		Notes: &task.Notes{Progress: task.Progress{Done: 1, Total: 2, Message: "m", At: at}, Checkpoint: []byte("c")},
	}
}

func TestFullTaskHasNoZeroField(t *testing.T) {
	v := reflect.ValueOf(full()).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("the tests do not know the field %s", v.Type().Field(i).Name)
		}
	}
}

func TestACloneIsEqualAndSharesNothing(t *testing.T) {
	a, c := full(), full().Clone()
	if !reflect.DeepEqual(a, c) {
		t.Errorf("the clone is %+v, want %+v", c, a)
	}
	b := a.Clone()
	b.Headers["a"] = "x"
	b.Payload[0], b.Result[0], b.Notes.Checkpoint[0] = 'x', 'x', 'x'
	b.History[0].Error = "x"
	b.Signals.Awaits[0], b.Signals.Wake.Signal.Data[0], b.Signals.Kept[0].Data[0], b.Signals.Seen[0] = "x", 'x', 'x', task.ID{9}
	b.Parent.Index, b.Children.Sets[0].Reported[0], b.Children.Sets[0].Shards[0], b.Children.Sets[0].Done, b.Search[0] = 9, 9, 9, 9, 1
	if !reflect.DeepEqual(a, c) {
		t.Errorf("changing a clone made %+v of the original", a)
	}
	if empty := new(task.Task).Clone(); !reflect.DeepEqual(empty, new(task.Task)) {
		t.Errorf("the clone of the zero task is %+v", empty)
	}
}

func TestATriggerNamesTheTaskItsQueueAndItsRank(t *testing.T) {
	a := full()
	want := task.Trigger{
		Ref:   task.Ref{ID: a.ID, Version: 7},
		Queue: task.Queue{Type: "mail", Group: "g"},
		Rank:  task.Rank{Priority: 1, ReadyAt: a.ReadyAt.UnixMicro(), Seq: 11},
		Shard: 3, Turn: task.Head,
	}
	if got := a.Trigger(); got != want {
		t.Errorf("the trigger is %+v, want %+v", got, want)
	}
}

func TestRanksAreOrderedByPriorityThenReadinessThenInsertion(t *testing.T) {
	ordered := []task.Rank{
		{0, 9, 9}, {5, -1, 9}, {5, 0, 9}, {5, 1, 0}, {5, 1, 1}, {5, 2, 0}, {9, 0, 0},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			want := min(1, max(-1, i-j))
			if got := a.Compare(b); got != want {
				t.Errorf("%v compared with %v is %d, want %d", a, b, got, want)
			}
		}
	}
	if !slices.IsSortedFunc(ordered, task.Rank.Compare) {
		t.Error("the ranks are not sorted")
	}
}

func TestAStampIsInUTCAndCutToTheMicrosecond(t *testing.T) {
	if !task.Stamp(time.Time{}).IsZero() {
		t.Error("the stamp of the zero time is not zero")
	}
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-1<<33, 1<<35).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).
			In(time.FixedZone("far", rapid.IntRange(-12, 14).Draw(t, "zone")*3600))
		got := task.Stamp(at)
		if off := at.Sub(got); off < 0 || off >= time.Microsecond {
			t.Fatalf("the stamp of %v is off by %v", at, off)
		}
		if got.Location() != time.UTC || got.Nanosecond()%1000 != 0 || task.Stamp(got) != got {
			t.Fatalf("%v is not a stamp", got)
		}
		if back := time.UnixMicro(got.UnixMicro()).UTC(); back != got {
			t.Fatalf("%v is read back as %v", got, back)
		}
	})
}
