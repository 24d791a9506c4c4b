package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

var forestScenarios = []scenario{
	{"random trees with signals end as their model says", func(n *node) { growsForest(n, 1, nil) }},
	{"random trees with signals end as their model says, though each delivery is repeated", func(n *node) {
		n.config.Store = repeating{n.store}
		growsForest(n, 4, nil)
	}},
	{"random trees with signals end as their model says, though the store fails now and then", func(n *node) {
		growsForest(n, 2, newWeather(8, func(call storagetest.Call, fault error) storagetest.Fault {
			if call == storagetest.Get {
				return storagetest.Fault{}
			}
			return storagetest.Fault{Before: fault}
		}))
	}},
	{"random trees with signals end as their model says, though the store does not say whether it failed", func(n *node) {
		growsForest(n, 3, newWeather(5, unsaid))
	}},
}

// tree is the payload of a task of a forest: what it does, step by step. A seed decides all of it.
type tree struct {
	Steps []treeStep `json:",omitempty"`
	Ends  string     // "done"; "error" first, and a person decides; "cancel": a person cancels it while it waits
	Extra int        `json:",omitempty"` // how many signals it gets from others than its children
}

// treeStep adds children, and waits.
type treeStep struct {
	Name   string // of the children
	Add    []tree `json:",omitempty"`
	Count  uint32 `json:",omitempty"` // of the wait; 0 is for all
	Failed bool   `json:",omitempty"` // the wait is also over when one has failed
	Until  int    `json:",omitempty"` // milliseconds; 0 is without end
	Signal bool   `json:",omitempty"` // it waits for a signal in place of children
}

// treeState is the checkpoint of a task of a forest, and its result.
type treeState struct {
	Step int
	Got  []string // the data of signals
	Wait treeStep // the newest wait
}

// forest checks trees of random tasks.
type forest struct {
	seed    uint64
	errorf  func(string, ...any)
	people  func() TreePeople // the nodes, as people reach them
	erred   sync.Map          // by id: it has been in error
	mu      sync.Mutex
	dropped map[string]bool // guarded by mu: for each signal that was not to be kept, whether it was taken
}

func newForest(seed uint64, errorf func(string, ...any), people func() TreePeople) *forest {
	return &forest{seed: seed, errorf: errorf, people: people, dropped: make(map[string]bool)}
}

// drawTree draws a task with children to a depth.
func drawTree(rng *rand.Rand, depth int) (t tree) {
	t.Ends = "done"
	if rng.IntN(6) == 0 {
		t.Ends = []string{"error", "cancel"}[rng.IntN(2)]
	}
	if depth == 0 {
		return t
	}
	for range 1 + rng.IntN(2) {
		s := treeStep{Name: []string{"a", "b"}[rng.IntN(2)], Failed: rng.IntN(4) == 0}
		for range 1 + rng.IntN(3) {
			s.Add = append(s.Add, drawTree(rng, rng.IntN(depth)))
		}
		if rng.IntN(2) == 0 {
			s.Count = 1 + rng.Uint32N(3)
		}
		if rng.IntN(3) == 0 {
			s.Until = 1 + rng.IntN(30)
		}
		t.Steps = append(t.Steps, s)
		if rng.IntN(3) == 0 {
			t.Steps = append(t.Steps, treeStep{Signal: true, Until: 1 + rng.IntN(20)})
		}
	}
	return t
}

// chance returns a number below n that depends on the seed, a task and its version.
func (f *forest) chance(t *task.Task, n uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, f.seed, t.Payload, t.Version)
	return h.Sum64() % n
}

func (f *forest) handle(_ context.Context, t *task.Task) ([]byte, error) {
	var is tree
	var at treeState
	if err := json.Unmarshal(t.Payload, &is); err != nil {
		return nil, err
	}
	if c := t.Checkpoint(); c != nil {
		if err := json.Unmarshal(c, &at); err != nil {
			return nil, err
		}
	}
	f.checkWake(t, &at)
	switch f.chance(t, 12) {
	case 0:
		return nil, errNo
	case 1:
		return make([]byte, 2<<20), task.Again(time.Now(), task.WithChildren("none", engine.Request{Type: "tree"})) // too large: nothing is added
	}
	if w := t.Woken(); w.By == task.BySignal {
		at.Got = append(at.Got, string(w.Signal.Data))
	}
	switch _, erred := f.erred.LoadOrStore(t.ID, true); {
	case is.Ends == "error" && !erred:
		return nil, task.Permanent(errNo)
	case is.Ends == "cancel":
		return nil, task.WaitFor([]string{"never"}, time.Time{})
	}
	if at.Step < len(is.Steps) {
		return nil, f.step(&is, &at)
	}
	return f.end(t, &is, &at)
}

// step ends the attempt with the next step.
func (f *forest) step(is *tree, at *treeState) error {
	s := is.Steps[at.Step]
	at.Step++
	var until time.Time
	if s.Until > 0 {
		until = time.Now().Add(time.Duration(s.Until) * time.Millisecond)
	}
	var reqs []engine.Request
	for _, child := range s.Add {
		data, _ := json.Marshal(child)
		reqs = append(reqs, engine.Request{Type: "tree", Payload: data})
	}
	s.Add = nil
	at.Wait = s
	data, _ := json.Marshal(at)
	if s.Signal {
		return task.WaitFor([]string{"s", "d"}, until, task.WithCheckpoint(data))
	}
	return task.WaitForChildren([]task.ChildrenWait{{Name: s.Name, Count: s.Count, OrFailed: s.Failed}}, until, task.WithCheckpoint(data), task.WithChildren(s.Name, reqs...))
}

// end waits for all children and their signals, and then ends the task, which signals its parent.
func (f *forest) end(t *task.Task, is *tree, at *treeState) ([]byte, error) {
	done := is.Extra
	if t.Children != nil {
		for i := range t.Children.Sets {
			s := &t.Children.Sets[i]
			if done += int(s.Done); s.Ended() < s.Added {
				at.Wait = treeStep{Name: s.Name}
				data, _ := json.Marshal(at)
				return nil, task.WaitForChildren([]task.ChildrenWait{{Name: s.Name}}, time.Time{}, task.WithCheckpoint(data))
			}
		}
	}
	kept := 0
	for _, got := range at.Got {
		if !strings.HasPrefix(got, "d") {
			kept++
		}
	}
	if kept < done {
		at.Wait = treeStep{Signal: true}
		data, _ := json.Marshal(at)
		return nil, task.WaitFor([]string{"s"}, time.Time{}, task.WithCheckpoint(data))
	}
	result, _ := json.Marshal(at)
	if t.Parent == nil {
		return result, task.Again(time.Time{})
	}
	return result, task.Again(time.Time{}, task.WithSignals(task.SignalRequest{To: t.Parent.ID, Name: "s", Data: []byte(t.ID.String()), Keep: true}))
}

// checkWake checks that the wait of a task is over by what woke it.
func (f *forest) checkWake(t *task.Task, at *treeState) {
	w := at.Wait
	switch by := t.Woken().By; {
	case by == task.ByTimeout && w.Until == 0, by == task.ByUser, by == task.BySignal && !w.Signal, by == task.ByChildren && w.Signal:
		f.errorf("%v was woken by %v from %+v", t.ID, by, w)
	case by == task.ByChildren:
		s := t.Children.Set(w.Name)
		if s.Ended() < s.Added && (w.Count == 0 || s.Ended() < w.Count) && (!w.Failed || s.Failed+s.Cancelled == 0) {
			f.errorf("%v was woken from %+v when its children were %+v", t.ID, w, s)
		}
	}
}

// request returns the root of a tree.
func (f *forest) request(number uint64) (r engine.Request, extra int) {
	is := drawTree(rand.New(rand.NewPCG(f.seed, number)), 3)
	is.Ends, is.Extra = "done", 4
	data, _ := json.Marshal(is)
	return engine.Request{Type: "tree", Payload: data}, is.Extra
}

// signals sends signals to the root of a tree: each twice, with its ID. Others are not to be kept.
func (f *forest) signals(ctx context.Context, to task.ID, extra int) {
	rng := rand.New(rand.NewPCG(f.seed, uint64(to[15])))
	for i := range 2 * extra {
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		s := engine.Signal{ID: task.ID{byte(i), 1, to[13], to[14], to[15]}, To: to, Name: "s", Data: fmt.Append(nil, "s", i), Keep: true}
		if i >= extra {
			s.Name, s.Keep, s.Data = "d", false, fmt.Append(nil, "d", i, " to ", to)
		}
		took := false
		for sent := 0; sent < 2; {
			outcome, _, err := f.people().Signal(ctx, s)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				continue
			}
			sent++
			took = took || outcome == engine.SignalWoke || outcome == engine.SignalRepeated
			if s.Keep && outcome != engine.SignalWoke && outcome != engine.SignalKept && outcome != engine.SignalRepeated && sent == 1 {
				f.errorf("a signal that is to be kept: %v", outcome)
			}
		}
		if !s.Keep {
			f.mu.Lock()
			f.dropped[string(s.Data)] = took
			f.mu.Unlock()
		}
	}
}

// decides decides about tasks in error, and cancels those that are to be cancelled, until ctx ends. It looks for them each time that every has passed.
func (f *forest) decides(ctx context.Context, every time.Duration, list listTrees) {
	for wakeup(ctx, every) {
		rows, err := list(ctx, "tree", task.Error, task.Waiting)
		if err != nil {
			continue
		}
		for _, t := range rows {
			ref := task.Ref{ID: t.ID, Version: t.Version}
			switch {
			case t.State == task.Waiting && slices.Contains(t.Awaits(), "never"):
				_, err = f.people().Cancel(ctx, ref, "not wanted")
			case t.State != task.Error:
			case t.Parent == nil || t.ID[12]%3 == 0 || strings.Contains(t.LastError, "bytes"):
				_, err = f.people().Resume(ctx, ref)
			case t.ID[12]%3 == 1:
				_, err = f.people().Fail(ctx, ref, "no")
			default:
				_, err = f.people().Cancel(ctx, ref, "no")
			}
			_ = err // it is tried again
		}
	}
}

// verify checks all tasks of the store after everything has ended.
func (f *forest) verify(all map[task.ID]*task.Task) {
	children := make(map[task.ID]map[string]uint32) // how many there are
	states := map[string]int{}
	for _, t := range all {
		if states[t.State.String()]++; t.Parent != nil {
			if children[t.Parent.ID] == nil {
				children[t.Parent.ID] = make(map[string]uint32)
			}
			children[t.Parent.ID][t.Parent.Name]++
		}
	}
	for _, t := range all {
		sets := []task.ChildSet{}
		if t.Children != nil {
			sets = t.Children.Sets
		}
		if t.State == task.Done {
			var at treeState
			if err := json.Unmarshal(t.Result, &at); err != nil {
				f.errorf("the result of %v is %q", t.ID, t.Result)
				continue
			}
			f.verifySignals(t, &at, sets, all)
		}
		if len(children[t.ID]) != len(sets) {
			f.errorf("%v (%v) has children %v, and says %+v", t.ID, t.State, children[t.ID], sets)
		}
		for i := range sets {
			f.verifySet(t, &sets[i], children[t.ID][sets[i].Name], all)
		}
	}
	if states["done"] == 0 || states["failed"]+states["cancelled"] == 0 {
		f.errorf("the tasks are %v", states)
	}
}

// verifySet checks that a task has learned of the end of each child, once.
func (f *forest) verifySet(t *task.Task, s *task.ChildSet, there uint32, all map[task.ID]*task.Task) {
	ended := map[task.State]uint32{}
	for index := range s.Added {
		child := all[s.Child(t.ID, index, -1)]
		if child == nil || !s.HasEnded(index) {
			f.errorf("child %d %q of %v: %v, reported: %v", index, s.Name, t.ID, child, s.HasEnded(index))
			continue
		}
		ended[child.State]++
	}
	if there != s.Added || ended[task.Done] != s.Done || ended[task.Failed] != s.Failed || ended[task.Cancelled] != s.Cancelled {
		f.errorf("%v says %+v of %d children, which have ended as %v", t.ID, s, there, ended)
	}
}

// verifySignals checks that a task that is done has got each signal once: of its children that are done, and of others.
func (f *forest) verifySignals(t *task.Task, at *treeState, sets []task.ChildSet, all map[task.ID]*task.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var is tree
	_ = json.Unmarshal(t.Payload, &is)
	var want, got []string
	for i := range is.Extra {
		want = append(want, fmt.Sprint("s", i))
	}
	for name, took := range f.dropped {
		if took && strings.HasSuffix(name, t.ID.String()) {
			want = append(want, name)
		}
	}
	for i := range sets {
		for index := range sets[i].Added {
			if id := sets[i].Child(t.ID, index, -1); all[id] != nil && all[id].State == task.Done {
				want = append(want, id.String())
			}
		}
	}
	got = slices.Sorted(slices.Values(at.Got))
	if slices.Sort(want); !slices.Equal(got, want) {
		f.errorf("%v has got %q, want %q", t.ID, got, want)
	}
}

// growsForest has random trees grow on one node, in a weather.
func growsForest(n *node, seed uint64, w *weather) {
	const roots = 8
	if w != nil {
		n.config.Store = storagetest.Faulty(repeating{n.store}, w.decide)
	}
	f := newForest(seed, n.Errorf, n.treePeople)
	n.start(types(20, untilDone, "tree"), map[string]handle{"tree": f.handle})
	if w != nil {
		w.quiet.Store(false)
	}
	f.grow(n, roots, func() {
		if w != nil {
			w.clear()
		}
	})
}

// grow submits the roots, and waits until all tasks have ended. calm is called in the middle of that.
func (f *forest) grow(n *node, roots uint64, calm func()) {
	ctx, stop := context.WithCancel(n.ctx)
	var acting sync.WaitGroup
	defer acting.Wait()
	defer stop()
	acting.Go(func() { f.decides(ctx, decideEvery, listIn(n.store)) })
	var ids []task.ID
	var sending sync.WaitGroup
	for i := range roots {
		r, extra := f.request(i)
		r.ID = task.NewIDs([32]byte{byte(f.seed), byte(i)}).Next(time.Now())
		_, err := n.Submit(ctx, r)
		for err != nil && ctx.Err() == nil {
			_, err = n.Submit(ctx, r)
		}
		ids = append(ids, r.ID)
		sending.Go(func() { f.signals(ctx, r.ID, extra) })
	}
	sending.Wait()
	calm()
	n.wait(ids...)
	all := f.ended(n)
	f.verify(all)
	n.Logf("%d tasks", len(all))
}

// ended waits until all tasks have ended, and returns them.
func (f *forest) ended(n *node) (all map[task.ID]*task.Task) {
	n.eventually("all tasks have ended", func() bool {
		all = make(map[task.ID]*task.Task)
		page, err := n.store.(storage.Inspector).List(n.ctx, storage.ListQuery{Filter: storage.Filter{Types: []string{"tree"}}, Limit: 10_000, Scan: 100_000})
		rows := page.Tasks
		for _, t := range rows {
			if all[t.ID] = t; t.State.Live() || t.State == task.Error {
				return false
			}
		}
		return err == nil
	})
	n.noSignalsOnTheWay()
	for id := range all {
		all[id] = n.get(id)
	}
	return all
}

// repeating is a store that delivers each end of a child, and each signal, twice.
type repeating struct{ storage.Store }

// Update implements [storage.Store].
func (r repeating) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return r.Store.Update(ctx, func(tx storage.Tx) error { return fn(repeatingTx{tx}) })
}

// Commit implements [storage.Store].
func (r repeating) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitIn(ctx, r.Update, b)
}

type repeatingTx struct{ storage.Tx }

// Swap implements [storage.Tasks].
func (x repeatingTx) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	rows, err := x.Tx.Swap(ctx, cs...)
	for i := range cs {
		if err == nil && (cs[i].Ends != nil || cs[i].Signal != nil) {
			var again []*task.Task
			if again, err = x.Tx.Swap(ctx, cs[i]); err == nil && again[0] != nil {
				err = errors.New("a repeated delivery has changed the row again")
			}
		}
	}
	return rows, err
}
