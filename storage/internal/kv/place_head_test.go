package kv

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// counting counts the writes of a transaction by the kinds of their keys.
type counting struct {
	*sorted
	puts, deletes map[byte]int
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
	c := counting{s, make(map[byte]int), make(map[byte]int)}
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
