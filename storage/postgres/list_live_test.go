package postgres_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// crowd are rows, the newest last.
type crowd struct {
	t    *testing.T
	s    *postgres.Store
	ids  *task.IDs
	rows []*task.Task
}

// add adds n rows that are newer than the others.
func (c *crowd) add(n int, state task.State, change func(i int, t *task.Task)) {
	c.t.Helper()
	var added []*task.Task
	for i := range n {
		at := moment.Add(time.Duration(len(c.rows)) * time.Millisecond)
		t := &task.Task{ID: c.ids.Next(at), Version: 1, Type: "mail", Priority: uint8(i % 10), State: state, CreatedAt: at, ReadyAt: at, UpdatedAt: at}
		t.Shard = t.ID.Shard()
		if state == task.Waiting {
			t.NextEventAt = at.Add(time.Duration(n-i) * time.Hour)
		}
		if change != nil {
			change(i, t)
		}
		added, c.rows = append(added, t), append(c.rows, t)
	}
	for some := range slices.Chunk(added, 1000) {
		if _, err := c.s.Insert(c.t.Context(), some...); err != nil {
			c.t.Fatal(err)
		}
	}
}

// list reads all pages of a list. It compares them with the rows, and returns how many rows the first page has read.
func (c *crowd) list(q storage.ListQuery) (read int) {
	c.t.Helper()
	var want, got []task.ID
	for _, t := range slices.Backward(c.rows) {
		if q.Selects(t) {
			want = append(want, t.ID)
		}
	}
	read = -1
	for more := true; more; more = !q.Before.IsZero() {
		page, err := c.s.List(c.t.Context(), q)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(page.Tasks) > q.Limit || page.Read > q.Scan {
			c.t.Errorf("%+v: %d rows of %d that were read", q.Filter, len(page.Tasks), page.Read)
		}
		for _, t := range page.Tasks {
			got = append(got, t.ID)
		}
		if q.Before = page.Next; read < 0 {
			read = page.Read
		}
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("%+v of %d, scan %d: %d rows, not %d", q.Filter, q.Limit, q.Scan, len(got), len(want))
	}
	return read
}

// A list of states finds its rows behind many newer ones of other states, by indexes if these have few entries.
func TestListsFindRowsOfStatesBehindManyOthers(t *testing.T) {
	t.Parallel()
	c := &crowd{t: t, s: postgrestest.Open(t, server.Database(t)), ids: task.NewIDs([32]byte{5})}
	of := func(typ string) func(int, *task.Task) {
		return func(i int, t *task.Task) { t.Type = typ }
	}
	c.add(50, task.Waiting, of("ship"))
	c.add(70, task.Submitted, func(i int, t *task.Task) { t.Type = []string{"mail", "ship", "pay"}[i%3] })
	c.add(30, task.Submitted, func(i int, t *task.Task) { t.OrderingKey, t.Turn = fmt.Sprint(i%7), task.Behind })
	c.add(10, task.Waiting, func(i int, t *task.Task) { t.OrderingKey, t.Turn = fmt.Sprint(i%7), task.Behind })
	c.add(20, task.Processing, of("ship"))
	c.add(40, task.Cancelled, of("mail"))
	c.add(15, task.Done, of(task.WorkflowType))
	c.add(15, task.Waiting, of(task.WorkflowType))
	c.add(3500, task.Error, nil)
	c.add(25, task.Submitted, of("mail"))
	even := func(t *task.Task) bool { return t.Priority%2 == 0 }
	check := func(when string) (reads []int) {
		t.Log(when)
		for _, states := range [][]task.State{
			{task.Submitted}, {task.Waiting}, {task.Waiting, task.Submitted}, {task.Processing}, {task.Processing, task.Submitted}, {task.Failed}, {task.Cancelled, task.Submitted},
		} {
			for _, types := range [][]string{nil, {"mail"}, {"ship", "pay", "ship"}, {"none"}} {
				for _, where := range []func(*task.Task) bool{nil, even} {
					for i, limits := range [][2]int{{20, 200_000}, {1000, 200_000}, {20, 3000}} {
						read := c.list(storage.ListQuery{Filter: storage.Filter{States: states, Types: types}, Where: where, Limit: limits[0], Scan: limits[1]})
						if i == 0 && where == nil {
							reads = append(reads, read)
						}
					}
				}
			}
		}
		return reads
	}
	for _, one := range []struct {
		states []task.State
		most   int
	}{{[]task.State{task.Waiting}, 15}, {[]task.State{task.Waiting, task.Processing, task.Error}, 15}, {[]task.State{task.Done, task.Failed}, 15}, {nil, 30}} {
		q := storage.ListQuery{Filter: storage.Filter{States: one.states, Types: []string{task.WorkflowType}}, Limit: 50, Scan: 10_000}
		if read := c.list(q); read > one.most {
			t.Errorf("%v: %d rows were read to find %d workflows", one.states, read, one.most)
		}
	}
	for i, read := range check("few entries")[:12] {
		if read > 2000+20 { // the newest rows, and the page
			t.Errorf("list %d: %d rows were read for a page of 20", i, read)
		}
	}
	c.add(11_000, task.Submitted, nil)
	c.add(11_000, task.Waiting, nil)
	slices.SortFunc(c.rows, func(a, b *task.Task) int { return cmp.Compare(a.CreatedAt.UnixNano(), b.CreatedAt.UnixNano()) })
	check("many entries")
}

// A list of tasks that do not exist reads none.
func TestListsOfNothingReadNothing(t *testing.T) {
	t.Parallel()
	c := &crowd{t: t, s: postgrestest.Open(t, server.Database(t)), ids: task.NewIDs([32]byte{6})}
	c.add(300, task.Waiting, nil)
	c.add(300, task.Done, nil)
	for _, f := range []storage.Filter{
		{States: []task.State{task.Submitted}},
		{States: []task.State{task.Processing}},
		{States: []task.State{task.Failed, task.Cancelled}},
		{Types: []string{"none"}},
		{States: []task.State{task.Waiting}, Types: []string{"none"}},
		{States: []task.State{task.Error}},
		{Types: []string{task.WorkflowType}},
	} {
		if read := c.list(storage.ListQuery{Filter: f, Limit: 10, Scan: 1000}); read != 0 {
			t.Errorf("%+v: %d rows were read", f, read)
		}
	}
	c.add(3, task.Failed, nil)
	c.add(3000, task.Done, nil)
	if read := c.list(storage.ListQuery{Filter: storage.Filter{States: []task.State{task.Failed}}, Limit: 10, Scan: 10_000}); read > 3003 {
		t.Errorf("%d rows were read, of which 3003 are not older than those that the list has", read)
	}
}
