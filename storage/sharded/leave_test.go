package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/sharded"
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
	order map[string][]int // guarded by mu: by parent and ordering key, the runs of the parent whose children have run
	moved bool             // guarded by mu: shards are moved
	fails func() bool      // guarded by mu: whether a parent fails behind its transaction; nil for never
	hold  chan struct{}    // guarded by mu: children wait for it; nil for none
}

func startFamilies(t *testing.T, child policy.Type) *families {
	f := &families{T: t, a: database(t, "a"), b: database(t, "b"), ran: make(map[string]int), order: make(map[string][]int)}
	if _, err := placement.Divide(t.Context(), f.a, f.b); err != nil {
		t.Fatal(err)
	}
	s, err := sharded.Open(t.Context(), []sharded.Place{{Name: "a", Store: f.a.Store}, {Name: "b", Store: f.b.Store}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.store = &faults{Store: s}
	parent := policy.DefaultType()
	parent.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Millisecond, Factor: 1, Max: time.Millisecond}}
	f.set = policy.Set{Slots: 32, Types: map[string]policy.Type{"parent": parent, "child": child, "other": forgotten()}}
	t.Cleanup(func() {
		f.stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
	for end := time.Now().Add(3 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			rows, _, _ := f.store.List(f.Context(), storage.Filter{Types: []string{"taskengine.relay"}}, task.ID{}, 5, 1000)
			f.Fatalf("%s: not within three minutes; %d children have run; %v", what, f.count(), rows)
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

// Handlers fail before their end is committed, and transactions fail before and after their commits, so that attempts of what
// carries the children end at every point. The children are deleted when they are done.
func TestEveryChildArrivesOnceInAnotherDatabaseWhateverFails(t *testing.T) { whateverFails(t, false) }

func TestEveryChildArrivesOnceThoughShardsAreMoved(t *testing.T) { whateverFails(t, true) }

func whateverFails(t *testing.T, moves bool) {
	f := startFamilies(t, forgotten())
	f.moved = moves
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rng, left := rand.New(rand.NewPCG(seed, 1)), 400
	fails := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || rng.IntN(5) > 0 {
			return false
		}
		left--
		return true
	}
	roll := func(int) error {
		if !fails() {
			return nil
		}
		if rng := rand.IntN(2); rng == 0 {
			return storage.ErrUnavailable // the task goes on
		}
		return errFault // the attempt has failed
	}
	f.fails = fails
	f.store.set(roll, roll)
	f.add(0, 40, 5)
	from, to := f.a, f.b
	for n := 0; moves && n < 4; n++ {
		if err := placement.Move(t.Context(), from, to, shards(0, 60), nil); err != nil {
			t.Error(err)
		}
		from, to = to, from
	}
	f.check(3 * 40 * 5)
	f.store.set(nil, nil)
	f.stop()
	f.start() // of another incarnation
	f.add(40, 20, 2)
	f.check(3 * (40*5 + 20*2))
}

// While a database is away, what belongs to it waits in the other one, where it can be seen, and the rest goes on.
func TestChildrenOfADatabaseThatIsAwayWaitAndHoldNothingBack(t *testing.T) {
	f := startFamilies(t, forgotten())
	f.store.set(func(database int) error {
		if database == 1 {
			return storage.ErrUnavailable
		}
		return nil
	}, nil)
	reqs := make([]engine.Request, 60)
	for i := range reqs {
		reqs[i] = engine.Request{Type: "parent", ID: inShard(uint16(i)), Payload: fmt.Appendf(nil, "%d 1", 2*i)} // all in the first database
	}
	if _, err := f.Submit(t.Context(), reqs...); err != nil {
		t.Fatal(err)
	}
	f.await("what is near", func() bool {
		waiting := int(f.live("taskengine.relay"))
		return f.live("parent") == 0 && f.live("child") == 0 && waiting > 0 && f.count()+waiting == 180
	})
	f.await("a report", func() bool {
		rows, _, err := f.store.List(t.Context(), storage.Filter{Types: []string{"taskengine.relay"}, States: []task.State{task.Processing}}, task.ID{}, 100, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(rows, func(r *task.Task) bool { return strings.Contains(r.Progress().Message, "does not answer") })
	})
	f.store.set(nil, nil)
	f.check(180)
}

// A database that was restored has lost the cursors of what waits for it, as far as they were opened.
func TestChildrenThatWaitArriveInADatabaseThatWasRestored(t *testing.T) {
	f := startFamilies(t, forgotten())
	var calls atomic.Int32
	together := make(chan struct{})
	f.store.set(func(database int) error {
		if database == 0 {
			return nil
		}
		switch n := calls.Add(1); {
		case n > 8:
			return storage.ErrUnavailable
		case n == 8: // all of them open cursors
			close(together)
		}
		<-together
		return nil
	}, nil)
	reqs := make([]engine.Request, 60)
	for i := range reqs {
		reqs[i] = engine.Request{Type: "parent", ID: inShard(uint16(i)), Payload: fmt.Appendf(nil, "%d 1", 2*i)}
	}
	if _, err := f.Submit(t.Context(), reqs...); err != nil {
		t.Fatal(err)
	}
	f.await("what is near", func() bool { return calls.Load() > 16 && f.live("parent") == 0 && f.live("child") == 0 })
	all := storage.Filter{Types: []string{"taskengine.relay"}, States: []task.State{task.Done}}
	var cursors []*task.Task
	f.await("a cursor", func() bool { // the calls that open them may take longer than those that fail
		all, _, err := f.store.List(t.Context(), all, task.ID{}, 100, 1000)
		if err != nil {
			t.Fatal(err)
		}
		cursors = slices.DeleteFunc(all, func(r *task.Task) bool { return f.store.DatabaseOf(r.ID.Shard()) == 0 })
		return len(cursors) > 0
	})
	for _, one := range cursors {
		if gone, err := f.b.Store.Delete(t.Context(), one.Ref()); err != nil || !gone[0] {
			t.Fatal(gone, err)
		}
	}
	f.store.set(nil, nil)
	f.check(180)
	f.await("no cursor is left", func() bool {
		left, _, err := f.store.List(t.Context(), all, task.ID{}, 100, 1000)
		return err == nil && len(left) == 0
	})
}

// inShard returns a new id in a shard.
func inShard(shard uint16) task.ID { return row(shard).ID }

// A type that has no room keeps no other type from the same database, and its children arrive when there is room.
func TestChildrenWaitForRoomInAnotherDatabase(t *testing.T) {
	child := forgotten()
	child.MaxBacklog = policy.Backlog{Max: 20, WhenFull: policy.PauseSource}
	f := startFamilies(t, child)
	f.hold = make(chan struct{})
	f.set.Types["parent"] = policy.DefaultType()
	f.add(0, 100, 1)
	f.await("a full backlog", func() bool { return f.live("child") > 20 })
	close(f.hold)
	f.check(300)
}

// A request of a transaction is resolved in the other database by the rules of its type. A task that is added with the end of
// an attempt adds nothing if its key is taken, as in the same database.
func TestAChildWhoseKeyIsTakenInAnotherDatabaseDoesWhatItsTypeSays(t *testing.T) {
	for name, want := range map[policy.OnConflict]string{policy.KeepExisting: "old", policy.ReplaceExisting: "new"} {
		t.Run(name.String(), func(t *testing.T) {
			child := policy.DefaultType()
			child.Unique.OnConflict = name
			f := startFamilies(t, child)
			later := f.Now().Add(time.Hour)
			var ids []task.ID
			for i := range 20 {
				got, err := f.Submit(t.Context(), engine.Request{Type: "child", Key: fmt.Sprintf("%d 0", i), Payload: []byte("old"), At: later})
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, got[0].ID)
			}
			database := 0
			err := f.store.UpdateIn(t.Context(), database, func(tx storage.Tx) error {
				for i := range 20 {
					if _, err := f.SubmitTx(t.Context(), tx, engine.Request{Type: "child", Key: fmt.Sprintf("%d 0", i), Payload: []byte("new"), At: later}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			f.await("nothing is on its way", func() bool { return f.live("taskengine.relay") == 0 })
			var far int
			for _, id := range ids {
				if f.store.DatabaseOf(id.Shard()) != database {
					far++
				}
				if got, err := f.Get(t.Context(), id); err != nil || string(got.Payload) != want {
					t.Errorf("%v, %v", got, err)
				}
			}
			for i := 0; i < 20; i += 2 {
				f.add(i, 1, 1)
			}
			f.await("nothing is on its way", func() bool { return f.live("parent") == 0 && f.live("taskengine.relay") == 0 })
			for _, id := range ids {
				if got, err := f.Get(t.Context(), id); err != nil || string(got.Payload) != want {
					t.Errorf("%v, %v", got, err)
				}
			}
			f.await("the other children", func() bool { return f.count() == 20 })
			if far == 0 || f.live("child") != 20 {
				t.Errorf("%d are far, and %d live", far, f.live("child"))
			}
		})
	}
}

// Whether a request of a transaction is late is found out before it leaves, so that none is lost because it waits. Tasks that are
// added with the end of an attempt are never late.
func TestNoChildIsLateBecauseItsDatabaseWasAway(t *testing.T) {
	child := forgotten()
	child.MaxLateness = time.Minute
	f := startFamilies(t, child)
	now := f.Now()
	var late int
	err := f.store.UpdateIn(t.Context(), 0, func(tx storage.Tx) error {
		for i := range 40 {
			at := now
			if i%2 == 1 {
				at = now.Add(-2 * time.Minute)
			}
			got, err := f.SubmitTx(t.Context(), tx, engine.Request{Type: "child", Key: fmt.Sprint("number ", i), At: at}, engine.Request{Type: "other", Key: strconv.Itoa(i), At: at})
			if i%2 == 0 && err != nil || i%2 == 1 && (!errors.Is(err, engine.ErrLate) || got[0].Outcome != engine.OutcomeLate || !got[1].Created) {
				return fmt.Errorf("%d: %+v, %w", i, got, err)
			}
			late += i % 2
		}
		return nil
	})
	if err != nil || late != 20 {
		t.Fatal(late, err)
	}
	f.await("nothing is on its way", func() bool { return f.live("taskengine.relay") == 0 })
	all, err := f.store.Count(t.Context(), storage.Filter{})
	if live := f.live("child") + f.live("other"); err != nil || live != 60 {
		t.Errorf("%d of 60, %v, %v", live, all, err)
	}
}

// A transaction that is not committed leaves nothing, in no database.
func TestNothingLeavesByATransactionThatIsRolledBack(t *testing.T) {
	f := startFamilies(t, forgotten())
	err := f.store.UpdateIn(t.Context(), 0, func(tx storage.Tx) error {
		for i := range 20 {
			if _, err := f.SubmitTx(t.Context(), tx, engine.Request{Type: "other", Key: strconv.Itoa(i)}); err != nil {
				return err
			}
		}
		return errFault
	})
	if !errors.Is(err, errFault) {
		t.Fatal(err)
	}
	all, err := f.store.Count(t.Context(), storage.Filter{})
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}
