package enginetest

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var copyScenarios = []scenario{
	{"in a copy of a store tasks that wait for others run once, and the original does not change", waitsInACopy},
	{"in copies that are made while tasks end, the tasks after these run once", followsInCopies},
}

// copied returns a node with a copy of the store of n as it is at one moment. isStill says that no row changes; otherwise n is closed in the meantime if
// its store makes no backup.
func (n *node) copied(isStill bool) *node {
	n.Helper()
	suite, open := n.suite, n.suite.Open
	suite.Open = func(t testing.TB) storage.Store {
		if s, ok := n.store.(interface {
			Copy(testing.TB) storage.Store
		}); ok {
			return s.Copy(t)
		}
		if !isStill {
			n.close()
			defer n.open()
		}
		other := open(t)
		for _, row := range n.allRows() {
			if _, err := other.Insert(n.ctx, row); err != nil {
				n.Fatal(err)
			}
		}
		return other
	}
	return newNode(n.T, suite)
}

// allRows returns the rows of the store in the order in which they were added.
func (n *node) allRows() []*task.Task {
	n.Helper()
	page, err := n.store.(storage.Inspector).List(n.ctx, storage.ListQuery{Limit: 10_000, Scan: 100_000})
	if err != nil {
		n.Fatal(err)
	}
	rows := page.Tasks
	for i, t := range rows {
		if rows[i], err = n.store.Get(n.ctx, t.ID); err != nil {
			n.Fatal(err)
		}
	}
	slices.SortFunc(rows, func(a, b *task.Task) int { return int(a.Seq) - int(b.Seq) })
	return rows
}

// waiting are tasks that wait for others, and those that hold them up.
type waiting struct {
	held    []task.ID // they run until the gate of their node is opened
	after   []task.ID // of held[0]: one at once, one with a task that is done already, and one after the first of them
	spoiled task.ID   // after held[1]
	anyEnd  task.ID   // likewise, however that ends
	parents []task.ID // one has added its children, of which one has ended, and one was added with its children
}

// openTo opens the node with a gate for the tasks that are held.
func (n *node) openTo(gate <-chan struct{}) {
	n.start(types(20, nil, "held", "ok", "late", "parent"), map[string]handle{
		"held": until(gate), "ok": done, "late": done,
		"parent": func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Woken().By == task.ByChildren {
				return nil, nil
			}
			return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "c"}}, time.Time{}, task.WithChildren("c", engine.Request{Type: "ok"}, engine.Request{Type: "held"}))
		},
	})
}

// addWaiting adds the tasks, and waits until all of them wait or run.
func (n *node) addWaiting() (w waiting) {
	n.Helper()
	w.held = n.submit(engine.Request{Type: "held"}, engine.Request{Type: "held"})
	ended := n.submit(engine.Request{Type: "ok"})[0]
	n.expect(ended, task.Done)
	w.after = n.submit(after(w.held[0]), after(w.held[0], ended))
	w.after = append(w.after, n.submit(after(w.after[0]))...)
	anyEnd := after(w.held[1])
	anyEnd.AfterAny = true
	others := n.submit(after(w.held[1]), anyEnd)
	w.spoiled, w.anyEnd = others[0], others[1]
	w.parents = n.submit(engine.Request{Type: "parent"}, withChildren(engine.Request{}, engine.Request{Type: "ok"}, engine.Request{Type: "held"}))
	n.eventually("all wait", func() bool {
		return !slices.ContainsFunc(w.held, func(id task.ID) bool { return n.get(id).State != task.Processing }) &&
			!slices.ContainsFunc(w.parents, func(id task.ID) bool {
				t := n.get(id)
				return t.State != task.Waiting || t.Children.Set("c").Done != 1 || n.get(t.Children.Set("c").Child(id, 1, -1)).State != task.Processing
			})
	})
	n.noSignalsOnTheWay()
	return w
}

// ends expects that the tasks end, once each. The task that is followed by spoiled ends as fails says.
func (n *node) ends(w *waiting, fails bool) {
	n.Helper()
	n.ranOnce(append(slices.Clone(w.after), w.anyEnd)...)
	if fails {
		n.expect(w.spoiled, task.Cancelled)
	} else {
		n.ranOnce(w.spoiled)
	}
	for _, id := range w.parents {
		if t := n.expect(id, task.Done); t.Children.Set("c").Done != 2 {
			n.Errorf("a parent is done when its children are %+v", t.Children)
		}
	}
	n.noSignalsOnTheWay()
}

// waitsInACopy runs an engine on a copy of a store, while that runs on.
func waitsInACopy(n *node) {
	gate, other := make(chan struct{}), make(chan struct{})
	n.openTo(gate)
	w := n.addWaiting()
	c := n.copied(true)
	was := n.allRows()
	c.openTo(other)
	for _, id := range append(slices.Clone(w.after), w.spoiled, w.anyEnd) {
		if _, reasons, err := c.Why(c.ctx, id); err != nil || len(reasons) != 1 || reasons[0].Code != engine.CodeAfter || c.get(id).State != task.Waiting {
			n.Errorf("why %v does not run in the copy: %+v, %v", id, reasons, err)
		}
	}
	for _, id := range w.parents {
		if _, reasons, err := c.Why(c.ctx, id); err != nil || len(reasons) != 1 || reasons[0].Code != engine.CodeChildren {
			n.Errorf("why parent %v does not run in the copy: %+v, %v", id, reasons, err)
		}
	}
	if _, err := c.Cancel(c.ctx, task.Ref{ID: w.held[1]}, "not in the copy"); err != nil {
		n.Error(err)
	}
	close(other)
	c.ends(&w, true)
	c.finish()
	if now := n.allRows(); !reflect.DeepEqual(now, was) {
		n.Errorf("the original has changed while an engine ran on its copy: the rows were %+v, and are %+v", was, now)
	}
	close(gate)
	n.ends(&w, false)
}

// followsInCopies makes copies while tasks end, and while the ends are on their way to the tasks that run after them.
func followsInCopies(n *node) {
	const pairs, copies = 60, 3
	start := func(n *node) {
		n.start(types(10, nil, "ok", "late"), map[string]handle{"ok": done, "late": done})
	}
	start(n)
	var lates []task.ID
	var all []*node
	for i := range pairs {
		first := n.submit(engine.Request{Type: "ok"})
		lates = append(lates, n.submit(after(first...))...)
		if i%(pairs/copies) == pairs/copies-1 {
			all = append(all, n.copied(false))
		}
	}
	n.ranOnce(lates...)
	for i, c := range all {
		was := make(map[task.ID]*task.Task)
		for _, t := range c.allRows() {
			was[t.ID] = t
		}
		start(c)
		for j, id := range lates {
			switch t := was[id]; {
			case t == nil && j < (i+1)*pairs/copies:
				n.Errorf("copy %d lacks %v, which was submitted before", i, id)
			case t == nil:
			case t.State == task.Waiting || t.State == task.Submitted:
				c.ranOnce(id)
			default:
				c.expect(id, task.Done)
			}
		}
		c.noSignalsOnTheWay()
		c.finish()
	}
}
