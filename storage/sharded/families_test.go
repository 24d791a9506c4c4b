package sharded_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/task"
)

// families is an engine on two databases. Tasks of the type parent run again until they have run a number of times, and add
// children each time: one with an ordering key, one with a key, and one with neither. Every second parent does so in a transaction.
type families struct {
	*testing.T
	*engine.Engine
	store *faults
	a, b  placement.Database
	set   policy.Set

	mu    sync.Mutex
	early []string         // guarded by mu: children that have run before the commit of their parent
	ran   map[string]int   // guarded by mu: how often each child has run
	order map[string][]int // guarded by mu: by parent and ordering key, the runs of the parent with children that have run
	moved bool             // guarded by mu: shards are moved
	fails func() bool      // guarded by mu: whether a parent fails behind its transaction; nil for never
	hold  chan struct{}    // guarded by mu: children wait for it; nil for none
}

func startFamilies(t *testing.T, child policy.Type) *families {
	f := &families{T: t, a: database(t, "a"), b: database(t, "b"), ran: make(map[string]int), order: make(map[string][]int)}
	f.store = openHalves(t, f.a, f.b, f.stop)
	parent := policy.DefaultType()
	parent.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Millisecond, Factor: 1, Max: time.Millisecond}}
	f.set = policy.Set{Slots: 32, Types: map[string]policy.Type{"parent": parent, "child": child, "other": forgotten()}}
	f.start()
	return f
}

func (f *families) start() {
	f.Helper()
	var err error
	f.Engine, err = engine.Open(f.Context(), engine.Config{
		Store: f.store, Log: slog.New(slog.DiscardHandler), Policies: f.set,
		Handlers: map[string]task.Handler{
			"parent": task.HandlerFunc(f.parent), "child": task.HandlerFunc(f.child), "other": task.HandlerFunc(f.child),
		},
	})
	if err != nil {
		f.Fatal(err)
	}
}

func (f *families) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := f.Close(ctx); err != nil {
		f.Error(err)
	}
}

// childrenOf are the requests of a run of a parent. The payloads are the name of the parent, its run, and the kind.
func childrenOf(t *task.Task, run int) []engine.Request {
	name, _, _ := strings.Cut(string(t.Payload), " ")
	say := func(kind string) []byte { return fmt.Appendf(nil, "%v %s %d %s", t.ID, name, run, kind) }
	return []engine.Request{
		{Type: "child", Payload: say("order"), OrderingKey: "customer " + name},
		{Type: "child", Payload: say("key"), Key: fmt.Sprint(name, " ", run)},
		{Type: "child", Payload: say("plain")},
	}
}

// parent adds children. Its payload is its name and the number of its runs, and its checkpoint is how often it has run.
func (f *families) parent(ctx context.Context, t *task.Task) ([]byte, error) {
	name, times, _ := strings.Cut(string(t.Payload), " ")
	number, _ := strconv.Atoi(name)
	most, _ := strconv.Atoi(times)
	run, _ := strconv.Atoi(string(t.Checkpoint()))
	var again time.Time
	if run+1 < most {
		again = f.Now()
	}
	f.mu.Lock()
	fails := f.fails
	f.mu.Unlock()
	if number%2 == 0 {
		if fails != nil && fails() {
			return nil, errFault
		}
		return nil, task.Again(again, task.WithTasks(childrenOf(t, run)...), task.WithCheckpoint(strconv.AppendInt(nil, int64(run+1), 10)))
	}
	err := f.store.UpdateIn(ctx, f.store.DatabaseOf(t.ID.Shard()), func(tx storage.Tx) error {
		receipts, err := f.SubmitTx(ctx, tx, childrenOf(t, run)...)
		if err != nil {
			return err
		}
		for _, r := range receipts {
			if !r.Created || r.ID.IsZero() {
				return fmt.Errorf("a receipt of %+v", r)
			}
		}
		if fails != nil && fails() {
			return errFault
		}
		if again.IsZero() {
			return engine.FinishTx(ctx, tx, nil)
		}
		return engine.AgainTx(ctx, tx, nil, again, task.WithCheckpoint(strconv.AppendInt(nil, int64(run+1), 10)))
	})
	return nil, err
}

func (f *families) child(ctx context.Context, t *task.Task) ([]byte, error) {
	words := strings.Fields(string(t.Payload))
	f.mu.Lock()
	hold := f.hold
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	id, err := task.ParseID(words[0])
	if err != nil {
		return nil, err
	}
	run, err := strconv.Atoi(words[2])
	if err != nil {
		return nil, err
	}
	parent, err := f.Get(ctx, id)
	if err != nil {
		return nil, err // the parents stay
	}
	had := -1
	if parent.State != task.Done {
		had, _ = strconv.Atoi(string(parent.Checkpoint()))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if parent.State != task.Done && had <= run {
		f.early = append(f.early, string(t.Payload))
	}
	f.ran[string(t.Payload)]++
	if t.OrderingKey != "" {
		f.order[t.OrderingKey] = append(f.order[t.OrderingKey], run)
	}
	return nil, nil
}

// add adds parents that run some times, from a number on.
func (f *families) add(from, n, times int) {
	f.Helper()
	reqs := make([]engine.Request, n)
	for i := range reqs {
		reqs[i] = engine.Request{Type: "parent", Payload: fmt.Appendf(nil, "%d %d", from+i, times)}
	}
	if _, err := f.Submit(f.Context(), reqs...); err != nil {
		f.Fatal(err)
	}
}

// live counts the rows of a type that have not ended.
func (f *families) live(typ string) (n int64) {
	f.Helper()
	all, err := f.store.Count(f.Context(), storage.Filter{Types: []string{typ}})
	if err != nil {
		f.Fatal(err)
	}
	for of, rows := range all {
		if of.State.Live() || of.State == task.Error {
			n += rows
		}
	}
	return n
}

func (f *families) await(what string, is func() bool) {
	f.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			page, _ := f.store.List(f.Context(), storage.ListQuery{Filter: storage.Filter{Types: []string{"taskengine.relay"}}, Limit: 5, Scan: 1000})
			rows := page.Tasks
			f.Fatalf("%s: not within five minutes; %d children have run; %v", what, f.count(), rows)
		}
	}
}

func (f *families) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ran)
}

// check waits until n children have run, and looks at how.
func (f *families) check(n int) {
	f.Helper()
	f.await("all children", func() bool { return f.count() >= n })
	f.await("nothing is on its way", func() bool {
		return f.live("parent") == 0 && f.live("child") == 0 && f.live("taskengine.relay") == 0
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ran) != n || len(f.early) > 0 {
		f.Errorf("%d children, of %d; before their parents: %v", len(f.ran), n, f.early)
	}
	for child, ran := range f.ran {
		if ran != 1 {
			f.Errorf("%s has run %d times", child, ran)
		}
	}
	for key, runs := range f.order {
		number, _ := strconv.Atoi(strings.TrimPrefix(key, "customer "))
		if f.moved && number%2 == 1 { // a child may be near suddenly, while another is on its way
			continue
		}
		if !slices.IsSorted(runs) {
			f.Errorf("%s: %v", key, runs)
		}
	}
}

// inShard returns a new id in a shard.
func inShard(shard uint16) task.ID { return row(shard).ID }
