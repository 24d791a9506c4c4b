package sim

import (
	"github.com/google/btree"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// store keeps the rows of tasks that have not ended, in the orders in which the core asks
// for them.
type store struct {
	rows   map[task.ID]*task.Task
	queues *btree.BTreeG[*queue]
	times  map[task.State]*btree.BTreeG[core.Due]
	seq    uint64
	ready  int // rows that are submitted
}

// queue is the submitted rows of one.
type queue struct {
	name task.Queue
	rows *btree.BTreeG[task.Trigger]
}

const degree = 16

func newStore() store {
	due := func() *btree.BTreeG[core.Due] {
		return btree.NewG(degree, func(a, b core.Due) bool {
			if !a.At.Equal(b.At) {
				return a.At.Before(b.At)
			}
			return a.ID.Compare(b.ID) < 0
		})
	}
	return store{
		rows:   make(map[task.ID]*task.Task),
		queues: btree.NewG(degree, func(a, b *queue) bool { return before(a.name, b.name) }),
		times:  map[task.State]*btree.BTreeG[core.Due]{task.Waiting: due(), task.Submitted: due()},
	}
}

func before(a, b task.Queue) bool {
	if a.Type != b.Type {
		return a.Type < b.Type
	}
	return a.Group < b.Group
}

// insert adds a row, and gives it its place in the order.
func (s *store) insert(t *task.Task) {
	s.seq++
	t.Seq = s.seq
	kept := *t
	s.rows[t.ID] = &kept
	s.index(&kept)
}

// swap applies a change and returns the row as it is then.
func (s *store) swap(c task.Change) *task.Task {
	row, ok := s.rows[c.ID]
	if !ok {
		return nil
	}
	s.unindex(row)
	applied := c.Apply(row)
	s.index(row)
	if !applied {
		return nil
	}
	copied := *row
	return &copied
}

// commit does a batch, and sets the outcome. Later transactions see it, durable or not.
func (s *store) commit(b *storage.Batch, out *storage.Outcome) {
	for _, t := range b.Insert {
		s.insert(t)
		out.Inserted = append(out.Inserted, storage.Inserted{})
	}
	for _, c := range b.Swap {
		out.Swapped = append(out.Swapped, s.swap(c))
	}
}

// forget drops a row that has ended.
func (s *store) forget(id task.ID) { delete(s.rows, id) }

func (s *store) index(t *task.Task) {
	if times, ok := s.times[t.State]; ok && !t.NextEventAt.IsZero() {
		times.ReplaceOrInsert(core.Due{Trigger: t.Trigger(), At: t.NextEventAt})
	}
	if t.State != task.Submitted {
		return
	}
	s.ready++
	l, ok := s.queues.Get(&queue{name: t.Queue()})
	if !ok {
		l = &queue{t.Queue(), btree.NewG(degree, func(a, b task.Trigger) bool { return a.Rank.Compare(b.Rank) < 0 })}
		s.queues.ReplaceOrInsert(l)
	}
	l.rows.ReplaceOrInsert(t.Trigger())
}

func (s *store) unindex(t *task.Task) {
	if times, ok := s.times[t.State]; ok && !t.NextEventAt.IsZero() {
		times.Delete(core.Due{Trigger: t.Trigger(), At: t.NextEventAt})
	}
	if t.State != task.Submitted {
		return
	}
	s.ready--
	if l, ok := s.queues.Get(&queue{name: t.Queue()}); ok {
		l.rows.Delete(t.Trigger())
		if l.rows.Len() == 0 {
			s.queues.Delete(l)
		}
	}
}

// leavesAfter answers a Scan.
func (s *store) queuesAfter(after task.Queue, limit int) (page []task.Queue, end bool) {
	s.queues.AscendGreaterOrEqual(&queue{name: after}, func(l *queue) bool {
		if l.name != after {
			page = append(page, l.name)
		}
		return len(page) < limit
	})
	return page, len(page) < limit
}

// load answers a Load.
func (s *store) load(q table.Load) (page []task.Trigger, end bool) {
	l, ok := s.queues.Get(&queue{name: q.Queue})
	if !ok {
		return nil, true
	}
	page, end, _ = q.Read(func(after *task.Rank, limit int) (rows []task.Trigger, err error) {
		var from task.Trigger
		if after != nil {
			from.Rank = *after
		}
		l.rows.AscendGreaterOrEqual(from, func(t task.Trigger) bool {
			if t.Rank != from.Rank {
				rows = append(rows, t)
			}
			return len(rows) < limit
		})
		return rows, nil
	})
	return page, end
}

// due answers a Look.
func (s *store) due(q core.DueLoad) (page []core.Due, end bool) {
	from := core.Due{At: q.AfterAt, Trigger: task.Trigger{Ref: task.Ref{ID: q.AfterID}}}
	s.times[q.State].AscendGreaterOrEqual(from, func(d core.Due) bool {
		if !d.At.Equal(q.AfterAt) || d.ID != q.AfterID {
			page = append(page, d)
		}
		return len(page) < q.Limit
	})
	return page, len(page) < q.Limit
}
