package kv

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// counting counts the reads and the writes of a transaction by the kinds of their keys.
type counting struct {
	*sorted
	gets, puts, deletes map[byte]int
}

func newCounting(s *sorted) counting {
	return counting{s, make(map[byte]int), make(map[byte]int), make(map[byte]int)}
}

func (c counting) Get(key []byte) ([]byte, bool, error) {
	c.gets[key[0]]++
	return c.sorted.Get(key)
}

func (c counting) Put(key, value []byte) error {
	c.puts[key[0]]++
	return c.sorted.Put(key, value)
}

func (c counting) Delete(key []byte) error {
	c.deletes[key[0]]++
	return c.sorted.Delete(key)
}

func (c counting) DeleteOnce(key []byte) error {
	c.deletes[key[0]]++
	return c.sorted.DeleteOnce(key)
}

func TestARowThatIsTheHeadOfItsKeyIsWrittenOnceWhenABatchAddsIt(t *testing.T) {
	s, db := filled(t, 0)
	c := newCounting(s)
	tx := db.Begin(c)
	row := func(id byte) *task.Task {
		t := &task.Task{ID: task.ID{id}, Type: "mail", OrderingKey: "o", Inherits: true, Priority: 5}
		t.Create(task.Submitted, time.Unix(1000+int64(id), 0), time.Time{})
		return t
	}
	head, behind := row(1), row(2)
	out, err := storage.Do(t.Context(), tx, &storage.Batch{Insert: []*task.Task{head, behind}})
	if err != nil || len(out.Heads) != 1 || out.Heads[0].ID != head.ID || head.Turn != task.Head || behind.Turn != task.Behind {
		t.Fatalf("heads are %+v, the turns %v and %v, %v", out.Heads, head.Turn, behind.Turn, err)
	}
	tx.Committed()
	if c.puts[prefixRecord] != 2 || c.puts[prefixReady] != 1 || c.puts[prefixSeat] != 1 || len(c.deletes) > 0 {
		t.Errorf("puts by kinds of keys are %v, deletes %v", c.puts, c.deletes)
	}
}

// The ends of the children of one task leave by many rows of one key.
func TestTheHeadOfAKeyIsReadOnceForAllRowsThatABatchAdds(t *testing.T) {
	s, db := filled(t, 0)
	add := func(first byte) counting {
		var rows []*task.Task
		for i := range byte(100) {
			t := &task.Task{ID: task.ID{first + i}, Type: "mail", OrderingKey: "o"}
			t.Create(task.Submitted, time.Unix(1000, 0), time.Time{})
			rows = append(rows, t)
		}
		c := newCounting(s)
		tx := db.Begin(c)
		if out, err := storage.Do(t.Context(), tx, &storage.Batch{Insert: rows}); err != nil || len(out.Inserted) != len(rows) {
			t.Fatalf("%d rows were added: %v", len(out.Inserted), err)
		}
		tx.Committed()
		return c
	}
	for _, first := range []byte{1, 101} {
		if c := add(first); c.gets[prefixHead] != 1 {
			t.Errorf("the head was read %d times for rows from %d on", c.gets[prefixHead], first)
		}
	}
}
