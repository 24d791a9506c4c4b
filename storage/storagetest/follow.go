package storagetest

import (
	"fmt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// followCases are about rows of a batch that are inserted if and only if a change is made.
var followCases = []testCase{
	{"rows follow the changes that are made, and no others", func(f *fixture) {
		made, late, ended := f.row(task.Processing), f.row(task.Processing), f.row(task.Processing)
		f.put(made, late, ended)
		b := &storage.Batch{Insert: f.rows(2, task.Submitted, nil)}
		for i, t := range []*task.Task{made, late, ended} {
			c := again(1)
			c.Ref, c.By = t.Ref(), t.Owner
			if i == 1 {
				c.Version++
			}
			b.Swap = append(b.Swap, c)
		}
		b.Swap[2].To, b.Swap[2].Count, b.Remove = task.Done, task.Keep, []bool{false, false, true}
		b.Follow = [][]*task.Task{f.following(made, 2), f.following(late, 2), f.following(ended, 1)}
		out := f.do(b)
		equal(f, "swapped", []bool{out.Swapped[0] != nil, out.Swapped[1] != nil, out.Swapped[2] != nil}, []bool{true, false, true})
		equal(f, "followed", [][]storage.Inserted{out.FollowedBy(0), out.FollowedBy(1), out.FollowedBy(2)}, [][]storage.Inserted{{{}, {}}, nil, {{}}})
		for i, rows := range b.Follow {
			for _, t := range rows {
				if f.exists(t.ID) != (i != 1) {
					f.Errorf("row %v of change %d exists: %t", t.ID, i, i == 1)
				} else if i != 1 {
					f.same(f.get(t.ID), t) // with its Seq
				}
			}
		}
		equal(f, "the row whose change removes it exists", f.exists(ended.ID), false)
	}},
	{"a row that follows and whose id or key is taken is left out, without an error", func(f *fixture) {
		f.together()
		for round := range 2 {
			t := f.row(task.Processing)
			f.put(t)
			rows := f.following(t, 4)
			for _, r := range rows[1:3] {
				r.Key = fmt.Sprint("key ", round)
			}
			f.put(rows[0].Clone())
			rows[3].ID = rows[1].ID
			c := again(1)
			if c.Ref = t.Ref(); round == 1 {
				c.By = t.Owner
			}
			out := f.do(&storage.Batch{Swap: []task.Change{c}, Follow: [][]*task.Task{rows}})
			equal(f, "followed", out.FollowedBy(0), []storage.Inserted{{Existing: rows[0].ID}, {}, {Existing: rows[1].ID}, {Existing: rows[1].ID}})
		}
	}},
	{"the key of a row that its change removes is free for a row that follows", func(f *fixture) {
		f.together()
		t := f.row(task.Processing, func(t *task.Task) { t.Key = "key" })
		f.put(t)
		rows := f.following(t, 1)
		rows[0].Key = "key"
		out := f.do(&storage.Batch{
			Swap:   []task.Change{{Ref: t.Ref(), To: task.Done, At: at(1), Outcome: task.Completed}},
			Remove: []bool{true}, Follow: [][]*task.Task{rows},
		})
		equal(f, "followed", out.FollowedBy(0), []storage.Inserted{{}})
		equal(f, "it exists", f.exists(rows[0].ID), true)
	}},
	{"rows follow the change of the attempt that they name, and no other one", func(f *fixture) {
		f.together()
		for _, change := range []func(c *task.Change){
			func(*task.Change) {}, func(c *task.Change) { c.By = task.ID{8} }, func(c *task.Change) { c.Version-- },
		} {
			second := func(t *task.Task) { t.Version = 2 }
			t, other := f.row(task.Processing, second), f.row(task.Processing, second)
			f.put(t, other)
			rows := f.following(t, 2)
			c, d := again(1), again(1)
			c.Ref, c.By, d.Ref, d.By = t.Ref(), t.Owner, other.Ref(), other.Owner
			change(&c)
			made := c.Ref == t.Ref() && c.By == t.Owner
			rows[1].Key = "key" + t.ID.String()
			out := f.do(&storage.Batch{Swap: []task.Change{c, d}, Follow: [][]*task.Task{rows, f.following(other, 1)}})
			equal(f, "rows that follow", []int{len(out.FollowedBy(0)), len(out.FollowedBy(1))}, []int{map[bool]int{true: 2}[made], 1})
			equal(f, "they exist", []bool{f.exists(rows[0].ID), f.exists(rows[1].ID)}, []bool{made, made})
			if !made { // its key is free
				rows[1].ID = f.id()
				f.put(rows[1])
			}
		}
	}},
	{"a batch whose changes all come too late adds nothing", func(f *fixture) {
		t := f.row(task.Processing)
		f.put(t)
		c := again(1)
		c.Ref, c.By = task.Ref{ID: t.ID, Version: 7}, t.Owner
		rows := f.following(t, 3)
		out := f.do(&storage.Batch{Swap: []task.Change{c}, Follow: [][]*task.Task{rows}})
		equal(f, "followed", len(out.FollowedBy(0)), 0)
		for _, r := range rows {
			equal(f, "it exists", f.exists(r.ID), false)
		}
	}},
}

// following returns n new rows that may follow a change of t, with payloads of several sizes.
func (f *fixture) following(t *task.Task, n int) []*task.Task {
	return f.rows(n, task.Submitted, func(i int, r *task.Task) {
		r.ID, r.Payload = t.ID.Child(at(i), "fire"), pattern(i*1500)
	})
}

// exists reports whether there is a row with this id.
func (f *fixture) exists(id task.ID) bool {
	_, err := f.Get(f.ctx(), id)
	return err == nil
}
