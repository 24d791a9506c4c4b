package zk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// Watch implements [cells.Store]. ZooKeeper reports once that a node has changed, so each node is read again after that by a
// goroutine of its own. Of several changes in quick succession the last one is reported.
func (s *store) Watch(ctx context.Context, prefix string, fn func(cells.Update)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	c, err := s.conn(ctx)
	if err != nil {
		cancel(nil)
		return ended(ctx, err)
	}
	w := &watch{store: s, conn: c, ctx: ctx, fail: cancel, cells: make(chan cells.Cell, 64), running: map[string]bool{}}
	defer w.wg.Wait()
	defer cancel(nil)
	whole, err := w.begin(prefix)
	if err != nil {
		return ended(ctx, s.noticed(c, err))
	}
	w.wg.Go(w.probe)
	fn(whole)
	for {
		select {
		case <-ctx.Done():
			if why := context.Cause(ctx); !errors.Is(why, context.Canceled) {
				return fmt.Errorf("watch: %w", s.explain(why))
			}
			return nil
		case cell := <-w.cells:
			fn(cells.Update{Cells: []cells.Cell{cell}})
		}
	}
}

// ended returns nil if ctx has ended, and err otherwise.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watch is one call of Watch.
type watch struct {
	*store
	conn  *conn
	ctx   context.Context // ends with the watch
	fail  context.CancelCauseFunc
	cells chan cells.Cell
	wg    sync.WaitGroup

	mu      sync.Mutex
	running map[string]bool // guarded by mu: keys of the nodes that are watched
}

// folder is a node with cells as its children.
type folder struct {
	key   string
	again wakeup.Signal // set when the children must be listed again
}

// begin starts to watch all nodes, and returns their cells.
func (w *watch) begin(prefix string) (cells.Update, error) {
	now, err := do(w.ctx, func() (int64, error) { return w.catchUp(w.conn) })
	if err != nil {
		return cells.Update{}, err
	}
	u := cells.Update{Whole: true, At: uint64(now)}
	for _, key := range cells.Folders() {
		if len(key) < len(prefix) || key[:len(prefix)] != prefix {
			continue
		}
		f := &folder{key: key, again: wakeup.New()}
		changed, all, err := w.list(f)
		if err != nil {
			return cells.Update{}, err
		}
		u.Cells = append(u.Cells, all...)
		w.wg.Go(func() { w.follow(f, changed) })
	}
	return u, nil
}

// errBehind says that the server of a watch does not have the changes of the others.
var errBehind = errors.New("the server is cut off from the others")

// minPatience is how long a server has at least to show that it has the changes of the others.
const minPatience = time.Second

// probe ends the watch when its server is cut off from the others. Such a server reports no changes, and goes on for as
// long as syncLimit allows. So it is asked for the state of the leader in each third of a lease.
func (w *watch) probe() {
	for wakeup.Sleep(w.ctx, w.options.Lease/3) == nil {
		ctx, cancel := context.WithTimeoutCause(w.ctx, max(w.options.Lease/2, minPatience), errBehind)
		newest := w.mark.Load()
		stat, err := do(ctx, func() (*zk.Stat, error) {
			if _, err := w.conn.Sync(w.options.Prefix); err != nil || newest == nil {
				return nil, err
			}
			_, stat, err := w.conn.Exists(newest.path)
			return stat, err
		})
		cancel()
		isThere := err == nil && stat != nil && stat.Mzxid != 0 // its session may be over
		if isThere && stat.Mzxid < newest.mzxid {
			err = errBehind
		}
		if err != nil && w.ctx.Err() == nil {
			w.fail(err)
			w.drop(w.conn)
		}
	}
}

// answer is the answer to a request for the children of a node, or for a node.
type answer struct {
	children []string
	stat     *zk.Stat // of the node with the children
	cell     cells.Cell
	missing  bool
	changed  <-chan zk.Event
}

// list starts to watch the children of a folder that are not watched yet. It returns their cells, and the cells of removed
// nodes: only the list says by which transaction they were removed.
func (w *watch) list(f *folder) (<-chan zk.Event, []cells.Cell, error) {
	a, err := do(w.ctx, func() (answer, error) {
		children, stat, changed, err := w.conn.ChildrenW(w.path(f.key))
		return answer{children: children, stat: stat, changed: changed}, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", f.key, err)
	}
	var fresh []string
	w.mu.Lock()
	for _, child := range a.children {
		if key := f.key + "/" + child; !w.running[key] {
			w.running[key] = true
			fresh = append(fresh, key)
		}
	}
	w.mu.Unlock()
	answers, err := each(fresh, w.get)
	if err != nil {
		return nil, nil, err
	}
	all := w.gone(f.key, a.children, a.stat.Pzxid)
	for i, key := range fresh {
		if !answers[i].missing {
			all = append(all, answers[i].cell)
		}
		w.wg.Go(func() { w.followNode(f, key, answers[i]) })
	}
	return a.changed, all, nil
}

// get reads a node and has changes of it reported.
func (w *watch) get(key string) (answer, error) {
	return do(w.ctx, func() (answer, error) {
		data, stat, changed, err := w.conn.GetW(w.path(key))
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return answer{missing: true}, nil
		case err != nil:
			return answer{}, fmt.Errorf("read %s: %w", key, err)
		}
		return answer{cell: w.see(key, data, stat), changed: changed}, nil
	})
}

// follow lists a folder again whenever its children have changed.
func (w *watch) follow(f *folder, changed <-chan zk.Event) {
	for {
		if !w.wait(changed, f.again) {
			return
		}
		var all []cells.Cell
		var err error
		if changed, all, err = w.list(f); err != nil {
			w.fail(err)
			return
		}
		for _, c := range all {
			w.report(c)
		}
	}
}

// followNode reports the states of a node until it is removed.
func (w *watch) followNode(f *folder, key string, a answer) {
	for !a.missing {
		if !w.wait(a.changed, wakeup.Signal{}) {
			return
		}
		var err error
		if a, err = w.get(key); err != nil {
			w.fail(err)
			return
		}
		if !a.missing {
			w.report(a.cell)
		}
	}
	w.mu.Lock()
	delete(w.running, key)
	w.mu.Unlock()
	f.again.Set() // the list says when it was removed, and it may have been created again
}

func (w *watch) report(c cells.Cell) {
	select {
	case w.cells <- c:
	case <-w.ctx.Done():
	}
}

// wait waits for a change, and reports false if the watch has ended instead.
func (w *watch) wait(changed <-chan zk.Event, again wakeup.Signal) bool {
	select {
	case e := <-changed:
		if e.Err != nil || e.Type == zk.EventNotWatching {
			w.fail(errors.Join(errors.New("changes are not reported any more"), e.Err))
			return false
		}
		return true
	case <-again.C():
		return true
	case <-w.ctx.Done():
		return false
	}
}
