package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

var errAway = fmt.Errorf("this part is away: %w", storage.ErrUnavailable)

// inParts is a store of which some shards can be away.
type inParts struct {
	*memory.Store

	mu    sync.Mutex
	away  task.Shards // guarded by mu
	blind bool        // guarded by mu: writes of shards that are away are done all the same, and return an error
}

func (s *inParts) set(away task.Shards, blind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.blind = away, blind
}

// Shards implements [storage.ShardBound].
func (s *inParts) Shards() *task.Shards { return nil }

// Get implements [storage.Tasks].
func (s *inParts) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	s.mu.Lock()
	away := s.away.Has(id.Shard())
	s.mu.Unlock()
	if away {
		return nil, errAway
	}
	return s.Store.Get(ctx, id)
}

// all returns all rows, also of shards that are away.
func (s *inParts) all(t *testing.T) []*task.Task {
	t.Helper()
	page, err := s.List(t.Context(), storage.ListQuery{Limit: 1000, Scan: 1000})
	rows := page.Tasks
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Databases implements [storage.Divided].
func (s *inParts) Databases() int { return 2 }

// DatabaseOf implements [storage.Divided]. The second database has the shards of half.
func (s *inParts) DatabaseOf(shard uint16) int { return int(shard / (task.ShardCount / 2)) }

// Without implements [storage.Divided].
func (s *inParts) Without(...int) storage.Tasks { return s.Store }

// CommitIn implements [storage.Divided].
func (s *inParts) CommitIn(ctx context.Context, database int, b *storage.Batch) storage.Commit {
	return storage.Later(func() (storage.Outcome, error) {
		s.mu.Lock()
		isAway, blind := s.away.Has(uint16(database*task.ShardCount/2)), s.blind
		s.mu.Unlock()
		if isAway && !blind {
			return storage.Outcome{}, errAway
		}
		out, err := s.Store.Commit(ctx, b).Wait()
		if isAway {
			return storage.Outcome{}, errAway
		}
		return out, err
	})
}

func startInParts(t *testing.T, set policy.Set, handlers map[string]task.Handler) (*node, *inParts) {
	s := &inParts{Store: memory.New()}
	n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: set, Handlers: handlers}}
	n.open()
	t.Cleanup(n.close)
	return n, s
}

func half(t *testing.T) task.Shards {
	t.Helper()
	s, err := task.ParseShards("128-255")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUncertainTasksAreResolvedThoughAPartOfTheStoreStaysAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s := startInParts(t, one("pay", nil), handle("pay", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
		s.set(task.AllShards(), true)
		var failed int
		for range 100 {
			if _, err := n.Submit(t.Context(), engine.Request{Type: "pay"}); err != nil {
				failed++
			}
		}
		if failed != 100 {
			t.Fatalf("%d submits of 100 failed", failed)
		}
		away := half(t)
		s.set(away, false)
		time.Sleep(5 * time.Minute) // each check asks for ten of the tasks that are away
		ended := make(map[bool]int) // number of ended tasks, by whether their shards are away
		for _, row := range s.all(t) {
			if row.State == task.Done {
				ended[away.Has(row.ID.Shard())]++
			} else if !away.Has(row.ID.Shard()) {
				t.Errorf("task %v of a part that is there is %s", row.ID, row.State)
			}
		}
		if ended[false] < 20 || ended[true] > 0 {
			t.Errorf("%d tasks that are there are done, and %d that are away", ended[false], ended[true])
		}
		s.set(task.Shards{}, false)
		time.Sleep(5 * time.Minute)
		for _, row := range s.all(t) {
			if row.State != task.Done {
				t.Errorf("task %v is %s", row.ID, row.State)
			}
		}
	})
}

func TestAPartOfTheStoreThatIsAwayStopsNothingElse(t *testing.T) {
	for _, blind := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			var mu sync.Mutex
			runs := make(map[task.ID]int)
			n, s := startInParts(t, one("pay", nil), handle("pay", func(_ context.Context, t *task.Task) ([]byte, error) {
				mu.Lock()
				runs[t.ID]++
				mu.Unlock()
				time.Sleep(time.Second)
				return nil, nil
			}))
			var before, here []task.ID
			for range 50 {
				before = append(before, n.submit(engine.Request{Type: "pay"}))
			}
			away := half(t)
			s.set(away, blind) // 50 run, and half of them cannot be saved
			refused := 0
			for range 50 {
				got, err := n.Submit(t.Context(), engine.Request{Type: "pay"})
				switch {
				case err == nil:
					here = append(here, got[0].ID)
				case errors.Is(err, errAway):
					refused++
				default:
					t.Fatal(err)
				}
			}
			if len(here) < 10 || refused < 10 {
				t.Fatalf("%d were accepted and %d refused", len(here), refused)
			}
			if _, err := n.Submit(t.Context(), requests("pay", 20)...); !errors.Is(err, errAway) {
				t.Errorf("of both parts at once: %v", err)
			}
			if err := n.WaitTasks(t.Context(), here...); err != nil { // while the other part is away
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if !blind {
				for _, row := range s.all(t) {
					want := task.Done
					if away.Has(row.ID.Shard()) {
						want = task.Processing
					}
					if row.State != want {
						t.Errorf("task %v is %s, want %s", row.ID, row.State, want)
					}
				}
			}
			s.set(task.Shards{}, false)
			if err := n.WaitTasks(t.Context(), append(before, here...)...); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range append(before, here...) {
				if n.expect(id, task.Done); runs[id] != 1 {
					t.Errorf("task %v ran %d times", id, runs[id])
				}
			}
		})
	}
}

func requests(typ string, n int) []engine.Request {
	rs := make([]engine.Request, n)
	for i := range rs {
		rs[i].Type = typ
	}
	return rs
}

func TestAnEngineThatClosesWaitsForThePartThatIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s := startInParts(t, one("pay", nil), handle("pay", func(context.Context, *task.Task) ([]byte, error) {
			time.Sleep(time.Second)
			return nil, nil
		}))
		var ids []task.ID
		for range 50 {
			ids = append(ids, n.submit(engine.Request{Type: "pay"}))
		}
		s.set(half(t), false)
		time.AfterFunc(20*time.Second, func() { s.set(task.Shards{}, false) })
		n.close()
		for _, id := range ids {
			if got, err := s.Get(t.Context(), id); err != nil || got.State != task.Done {
				t.Errorf("it is %v, %v", got.State, err)
			}
		}
	})
}

func TestWhatSeveralDatabasesCannotKeepApartIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, _ := startInParts(t, one("pay", nil), nil)
		ids, now, ofKey := task.NewIDs([32]byte{1}), time.Now(), task.ShardOf("pay\x00k")
		for what, r := range map[string]engine.Request{
			"leave the id out": {Type: "pay", ID: ids.NextIn(now, ofKey+1), Key: "k"},
			"one that fits":    {Type: "pay", ID: ids.NextIn(now, task.ShardOf("o")+1), OrderingKey: "o"},
		} {
			if _, err := n.Submit(t.Context(), r); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), what) {
				t.Errorf("%+v: %v", r, err)
			}
		}
		first, second := n.submit(engine.Request{Type: "pay", Key: "k"}), n.submit(engine.Request{Type: "pay", Key: "k"})
		if first != second || first.Shard() != ofKey {
			t.Errorf("a key is of %v and %v", first, second)
		}
		within := n.submit(engine.Request{Type: "pay", Key: "k", OrderingKey: "o"})
		if again := n.submit(engine.Request{Type: "pay", Key: "k", OrderingKey: "o"}); within == first || again != within || within.Shard() != task.ShardOf("o") {
			t.Errorf("a key within an ordering key is of %v and %v", within, again)
		}
		if other := n.submit(engine.Request{Type: "pay", Key: "k", OrderingKey: "another"}); other == within {
			t.Error("within another ordering key it is the same task")
		}
		third := ids.NextIn(now, task.ShardOf("pay\x00l"))
		if got := n.submit(engine.Request{Type: "pay", ID: third, Key: "l"}); got != third {
			t.Errorf("with an id that fits it is %v", got)
		}
	})
}

// partly is a transaction of a database that holds some shards.
type partly struct {
	storage.Tx
	shards task.Shards
}

// Shards implements [storage.ShardBound].
func (x partly) Shards() *task.Shards { return &x.shards }

func TestTasksOfATransactionAreOfTheShardsOfItsDatabase(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s := startInParts(t, one("pay", nil), nil)
		submit := func(shards string, rs ...engine.Request) (got []engine.Receipt, err error) {
			var some task.Shards
			if shards != "" {
				if some, err = task.ParseShards(shards); err != nil {
					t.Fatal(err)
				}
			}
			err = s.Update(t.Context(), func(tx storage.Tx) error {
				got, err = n.SubmitTx(t.Context(), partly{tx, some}, rs...)
				return err
			})
			return got, err
		}
		got, err := submit("7,9", requests("pay", 20)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got {
			if shard := r.ID.Shard(); shard != 7 && shard != 9 {
				t.Errorf("a task is of shard %d", shard)
			}
		}
		ids := task.NewIDs([32]byte{1})
		if _, err := submit("7", engine.Request{Type: "pay", ID: ids.NextIn(time.Now(), 7)}); err != nil {
			t.Error(err)
		}
		if _, err := submit("7", engine.Request{Type: "pay", ID: ids.NextIn(time.Now(), 8)}); !errors.Is(err, storage.ErrElsewhere) {
			t.Errorf("an id of another database: %v", err)
		}
		if _, err := submit("7", engine.Request{Type: "pay", Key: "k"}); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("a key: %v", err)
		}
		here, away := task.ShardOf("here"), task.ShardOf("away")
		within := engine.Request{Type: "pay", Key: "k", OrderingKey: "here"}
		first, err := submit(fmt.Sprint(here), within, engine.Request{Type: "pay", OrderingKey: "here"})
		if err != nil || first[0].ID.Shard() != here || first[1].ID.Shard() != here {
			t.Errorf("ordering keys of the database: %+v, %v", first, err)
		}
		if again, err := submit(fmt.Sprint(here), within); err != nil || again[0].Created || again[0].ID != first[0].ID {
			t.Errorf("a key within an ordering key: %+v, %v", again, err)
		}
		if _, err := submit(fmt.Sprint(here), engine.Request{Type: "pay", OrderingKey: "away"}); here == away || !errors.Is(err, storage.ErrElsewhere) {
			t.Errorf("an ordering key of another database: %v", err)
		}
		if _, err := submit("", engine.Request{Type: "pay"}); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("in a database without shards: %v", err)
		}
	})
}

// partOf is a store that holds some of the tasks.
type partOf struct {
	*memory.Store
	home storage.Holdings
}

// Holdings implements [storage.ShardOwner].
func (s partOf) Holdings(context.Context) (storage.Holdings, error) { return s.home, nil }

func TestAnEngineDoesNotOpenOneOfSeveralDatabases(t *testing.T) {
	s := partOf{Store: memory.New()}
	for range 2 {
		e, err := engine.Open(t.Context(), engine.Config{Store: s, Policies: one("pay", nil)})
		if all := s.home.Owned == task.AllShards(); all != (err == nil) {
			t.Errorf("with the shards %s: %v", &s.home.Owned, err)
		}
		if err == nil {
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		s.home.Owned = task.AllShards()
	}
}

// deaf is a store that sometimes cannot be read.
type deaf struct {
	*memory.Store
	until time.Time
}

func (s deaf) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	if time.Now().Before(s.until) {
		return nil, errAway
	}
	return s.Store.Get(ctx, id)
}

func (s deaf) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	if time.Now().Before(s.until) {
		return nil, errAway
	}
	return s.Store.Count(ctx, f)
}

func TestWhoWaitsForTasksWaitsForTheStoreToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := deaf{memory.New(), time.Now().Add(10 * time.Second)}
		n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: one("pay", nil), Handlers: handle("pay", func(context.Context, *task.Task) ([]byte, error) {
			return nil, nil
		})}}
		n.open()
		t.Cleanup(n.close)
		id := n.submit(engine.Request{Type: "pay"})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.WaitTasks(short, id); !errors.Is(err, errAway) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("for a second: %v", err)
		}
		var all sync.WaitGroup
		for _, wait := range []func() error{
			func() error { return n.WaitTasks(t.Context(), id) },
			func() error { return n.WaitType(t.Context(), "pay") },
		} {
			all.Go(func() {
				if err := wait(); err != nil || s.until.After(time.Now()) {
					t.Errorf("it did not wait for the store: %v", err)
				}
			})
		}
		all.Wait()
		n.expect(id, task.Done)
	})
}

func TestAWaitForATaskThatCannotBeReadEndsWithTheEngine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s := startInParts(t, one("pay", nil), nil)
		id := n.submit(engine.Request{Type: "pay"})
		s.set(task.AllShards(), false)
		for what, wait := range map[string]func() error{
			"tasks":  func() error { return n.WaitTasks(t.Context(), id) },
			"a type": func() error { return n.WaitType(t.Context(), "pay") },
		} {
			waited := make(chan error, 1)
			go func() { waited <- wait() }()
			time.AfterFunc(time.Second, n.close)
			if err := <-waited; !errors.Is(err, engine.ErrClosed) {
				t.Errorf("a wait for %s ends with %v", what, err)
			}
			n.open()
		}
	})
}
