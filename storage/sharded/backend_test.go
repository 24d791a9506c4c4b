package sharded_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

// backend is a store in memory that holds some shards, and otherwise does as a database does.
type backend struct {
	storage.Store // the verbs, which fail as fault says
	storage.Inspector
	storage.KeyInspector
	storage.KeyFinder
	storage.Shared
	storage.LogKeeper
	rows  *memory.Store
	name  string
	fault atomic.Pointer[func(storagetest.Call) storagetest.Fault] // nil is none
	homes atomic.Int64                                             // how often Holdings was called
	calls atomic.Int64                                             // how often a verb, Update or Do was

	gate sync.RWMutex                     // held by who changes rows, and alone by who changes home
	home atomic.Pointer[storage.Holdings] // guarded by gate; read by anybody

	mu       sync.Mutex
	rules    map[string]storage.TypeRules // guarded by mu
	settings map[string][]byte            // guarded by mu
}

var _ sharded.Backend = (*backend)(nil)

func newBackend(name string, here task.Shards) *backend {
	m := memory.New()
	p := &backend{Inspector: m, KeyInspector: m, KeyFinder: m, Shared: m, LogKeeper: m, rows: m, name: name, rules: make(map[string]storage.TypeRules), settings: make(map[string][]byte)}
	p.Store = storagetest.Faulty(m, func(c storagetest.Call) storagetest.Fault {
		p.calls.Add(1)
		if fault := p.fault.Load(); fault != nil {
			return (*fault)(c)
		}
		return storagetest.Fault{}
	})
	p.home.Store(&storage.Holdings{Owned: here})
	return p
}

// fail has every call of the backend fail with this error from now on; nil is none.
func (p *backend) fail(err error) {
	p.fault.Store(nil)
	if err != nil {
		p.fault.Store(new(func(storagetest.Call) storagetest.Fault { return storagetest.Fault{Before: err} }))
	}
}

// failHome makes the backend fail when it is asked for its shards.
func (p *backend) failHome(err error) {
	p.fault.Store(new(func(c storagetest.Call) (f storagetest.Fault) {
		if c == home {
			f.Before = err
		}
		return f
	}))
}

// home is the call of Holdings, as faults have it.
const home storagetest.Call = "home"

// failCommit has every transaction fail with this error when it is committed.
func (p *backend) failCommit(err error) {
	p.fault.Store(new(func(c storagetest.Call) (f storagetest.Fault) {
		if c == storagetest.Update {
			f.After = err
		}
		return f
	}))
}

func (p *backend) Holdings(ctx context.Context) (storage.Holdings, error) {
	p.homes.Add(1)
	if fault := p.fault.Load(); fault != nil {
		if f := (*fault)(home); f.Before != nil {
			return storage.Holdings{}, f.Before
		}
	}
	return *p.home.Load(), ctx.Err()
}

// settle changes the shards of the backend.
func (p *backend) settle(change func(h *storage.Holdings)) {
	p.gate.Lock()
	defer p.gate.Unlock()
	h := *p.home.Load()
	change(&h)
	h.Revision++
	p.home.Store(&h)
}

func (p *backend) Update(ctx context.Context, fn func(storage.Tx) error) error {
	p.gate.RLock()
	defer p.gate.RUnlock()
	return p.Store.Update(ctx, func(tx storage.Tx) error {
		x := &fenced{Tx: tx, here: &p.home.Load().Owned}
		if err := fn(x); err != nil {
			return err
		}
		return x.err
	})
}

// fenced refuses calls that make or change rows of shards that are not here.
type fenced struct {
	storage.Tx
	here *task.Shards
	err  error // the first refusal: the transaction is dead
}

// refuse fails if the backend does not hold the shard of a row that it has.
func (x *fenced) refuse(ctx context.Context, id task.ID) error {
	if !x.here.Has(id.Shard()) {
		if _, err := x.Get(ctx, id); err == nil {
			x.err = fmt.Errorf("%v: %w", id, storage.ErrElsewhere)
		}
	}
	return x.err
}

func (x *fenced) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	for _, t := range ts {
		if !x.here.Has(t.ID.Shard()) {
			x.err = fmt.Errorf("%v: %w", t.ID, storage.ErrElsewhere)
			return nil, x.err
		}
	}
	return x.Tx.Insert(ctx, ts...)
}

func (x *fenced) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	for _, c := range cs {
		if err := x.refuse(ctx, c.ID); err != nil {
			return nil, err
		}
	}
	return x.Tx.Swap(ctx, cs...)
}

func (x *fenced) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	for _, n := range ns {
		if err := x.refuse(ctx, n.ID); err != nil {
			return nil, err
		}
	}
	return x.Tx.Note(ctx, ns...)
}

// in calls a verb in a transaction of its own.
func in[T any](ctx context.Context, p *backend, verb func(storage.Tx) (T, error)) (out T, err error) {
	err = p.Update(ctx, func(tx storage.Tx) (err error) {
		out, err = verb(tx)
		return err
	})
	return out, err
}

func (p *backend) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	return in(ctx, p, func(tx storage.Tx) ([]storage.Inserted, error) { return tx.Insert(ctx, ts...) })
}

func (p *backend) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	return in(ctx, p, func(tx storage.Tx) ([]*task.Task, error) { return tx.Swap(ctx, cs...) })
}

func (p *backend) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	return in(ctx, p, func(tx storage.Tx) ([]bool, error) { return tx.Note(ctx, ns...) })
}

func (p *backend) Delete(ctx context.Context, rs ...task.Ref) ([]bool, error) {
	return in(ctx, p, func(tx storage.Tx) ([]bool, error) { return tx.Delete(ctx, rs...) })
}

func (p *backend) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitIn(ctx, p.Update, b)
}

func (p *backend) Expire(ctx context.Context, now time.Time) (removed int64, next time.Time, err error) {
	var gone []task.Ref
	for _, s := range []task.State{task.Done, task.Failed, task.Cancelled} {
		ended, err := p.Due(ctx, storage.DueQuery{State: s, Before: now.AddDate(1, 0, 0), Limit: math.MaxInt})
		if err != nil {
			return 0, time.Time{}, err
		}
		for _, d := range ended {
			if !d.At.After(now) {
				gone = append(gone, d.Ref)
			} else if next.IsZero() || d.At.Before(next) {
				next = d.At
			}
		}
	}
	_, err = p.Delete(ctx, gone...)
	return int64(len(gone)), next, err
}

func (p *backend) Fold(ctx context.Context) (int64, error) { return 1, ctx.Err() }

func (p *backend) SetRules(_ context.Context, rules ...storage.TypeRules) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range rules {
		p.rules[r.Type] = r
	}
	return nil
}

func (p *backend) Rules(_ context.Context, typ string) (storage.TypeRules, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.rules[typ]; ok {
		return r, nil
	}
	return p.rules[""], nil
}

func (p *backend) Setting(ctx context.Context, name string) ([]byte, error) {
	return p.rows.Setting(ctx, name)
}

func (p *backend) SetSetting(ctx context.Context, name string, value []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settings[name] = value; value == nil {
		delete(p.settings, name)
	}
	return p.rows.SetSetting(ctx, name, value)
}

func (p *backend) Export(ctx context.Context, setting func(string, []byte) error, row func(*task.Task) error) error {
	p.mu.Lock()
	settings := maps.Clone(p.settings)
	p.mu.Unlock()
	rows, err := p.all(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := setting(name, settings[name]); err != nil {
			return err
		}
	}
	for _, t := range rows {
		if err := row(t); err != nil {
			return err
		}
	}
	return nil
}

// all returns all rows at one moment, in the order of insertion.
func (p *backend) all(ctx context.Context) (rows []*task.Task, err error) {
	p.gate.Lock() // no call changes any
	defer p.gate.Unlock()
	page, err := p.rows.List(ctx, storage.ListQuery{Limit: math.MaxInt, Scan: math.MaxInt})
	listed := page.Tasks
	for _, l := range listed {
		t, err := p.rows.Get(ctx, l.ID)
		if err != nil {
			return nil, err
		}
		rows = append(rows, t)
	}
	slices.SortFunc(rows, func(a, b *task.Task) int { return cmp.Compare(a.Seq, b.Seq) })
	return rows, err
}

// move takes shards from one backend to another. It calls before ahead of each step, and goes on as long
// as that returns true.
func move(t testing.TB, from, to *backend, shards task.Shards, before func(step string) bool) {
	t.Helper()
	var packed []*task.Task
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"leave", func() {
			from.settle(func(h *storage.Holdings) { h.Owned, h.Migrating, h.To = h.Owned.Without(&shards), shards, to.name })
		}},
		{"pack", func() {
			rows, err := from.all(t.Context())
			if err != nil {
				t.Error(err)
			}
			for _, r := range rows {
				if shards.Has(r.ID.Shard()) {
					if _, err := from.rows.Delete(t.Context(), r.Ref()); err != nil {
						t.Error(err)
					}
					packed = append(packed, r)
				}
			}
		}},
		{"deliver", func() {
			to.settle(func(h *storage.Holdings) {
				if _, err := to.rows.Insert(t.Context(), packed...); err != nil {
					t.Error(err)
				}
				h.Owned = h.Owned.With(&shards)
			})
		}},
		{"forget", func() {
			from.settle(func(h *storage.Holdings) { h.Migrating, h.To = task.Shards{}, "" })
		}},
	} {
		if before != nil && !before(step.name) {
			return
		}
		step.do()
	}
}

// shards returns the shards from one up to and including another.
func shards(from, to int) (s task.Shards) {
	for shard := from; shard <= to; shard++ {
		s.Add(uint16(shard))
	}
	return s
}

// backends returns n of them, called a, b and so on, that hold equal parts.
func backends(n int) []*backend {
	ps := make([]*backend, n)
	for i := range ps {
		ps[i] = newBackend(string(rune('a'+i)), shards(i*task.ShardCount/n, (i+1)*task.ShardCount/n-1))
	}
	return ps
}

// open opens the store that they are.
func open(t testing.TB, ps ...*backend) *sharded.Store {
	t.Helper()
	var named []sharded.Database
	for _, p := range ps {
		named = append(named, sharded.Database{Name: p.name, Store: p})
	}
	s, err := sharded.Open(t.Context(), named, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
