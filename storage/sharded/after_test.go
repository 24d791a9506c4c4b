package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/task"
)

// queueOf is an engine on two databases with tasks that run after others. Those of the type gone are removed when they are done, and those
// of the type failing fail.
type queueOf struct {
	*testing.T
	*engine.Engine
	store *faults
	a, b  placement.Database

	mu    sync.Mutex
	wants map[task.ID]task.State // guarded by mu: of the tasks that were accepted
	far   int                    // guarded by mu: how many of these wait for one in another database
}

func startQueue(t *testing.T) *queueOf {
	q := &queueOf{T: t, a: database(t, "a"), b: database(t, "b"), wants: make(map[task.ID]task.State)}
	q.store = openHalves(t, q.a, q.b, q.stop)
	q.start()
	return q
}

func (q *queueOf) start() {
	q.Helper()
	ok := policy.DefaultType()
	ok.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Millisecond, Factor: 1, Max: time.Millisecond}}
	gone, failing := ok, ok
	gone.Retention.Done, failing.Retry.Fails = 0, true
	done := task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
	e, err := engine.Open(q.Context(), engine.Config{
		Store: q.store, Log: slog.New(slog.DiscardHandler),
		Policies: policy.Set{Slots: 32, Types: map[string]policy.Type{"kept": ok, "gone": gone, "failing": failing, "late": ok}},
		Handlers: map[string]task.Handler{
			"kept": done, "gone": done, "late": done,
			"failing": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(errFault) }),
		},
	})
	if err != nil {
		q.Fatal(err)
	}
	q.Engine = e
}

func (q *queueOf) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := q.Close(ctx); err != nil {
		q.Error(err)
	}
}

// submit submits a request until it is accepted, or is to run after a task that is gone.
func (q *queueOf) submit(r engine.Request, by func(engine.Request) error) bool {
	for {
		err := by(r)
		switch {
		case err == nil:
			return true
		case errors.Is(err, engine.ErrNoSuchTask):
			return false
		case errors.Is(err, engine.ErrInvalid) || q.Context().Err() != nil:
			q.Errorf("submit %v: %v", r.ID, err)
			return false
		}
	}
}

func (q *queueOf) alone(r engine.Request) error {
	_, err := q.Submit(q.Context(), r)
	return err
}

// within submits a request in a transaction of one of the databases, which may be another one than that of the task.
func (q *queueOf) within(r engine.Request) error {
	return q.store.UpdateIn(q.Context(), int(r.ID[9])%2, func(tx storage.Tx) error {
		_, err := q.SubmitTx(q.Context(), tx, r)
		return err
	})
}

// round submits some tasks, and one that runs after them.
func (q *queueOf) round(rng *rand.Rand, ids *task.IDs) {
	var firsts []task.ID
	fails := false
	for range 1 + rng.IntN(3) {
		typ := []string{"kept", "gone", "kept", "failing"}[rng.IntN(4)]
		r := engine.Request{ID: ids.Next(time.Now()), Type: typ}
		if rng.IntN(2) == 0 {
			r.At = time.Now().Add(time.Duration(rng.IntN(8)) * time.Millisecond)
		}
		firsts, fails = append(firsts, r.ID), fails || typ == "failing"
		q.submit(r, q.alone)
	}
	late := engine.Request{ID: ids.Next(time.Now()), Type: "late", After: firsts, AfterAny: rng.IntN(3) == 0}
	by := q.alone
	if rng.IntN(2) == 0 {
		by = q.within
	}
	if !q.submit(late, by) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wants[late.ID] = task.Done
	if fails && !late.AfterAny {
		q.wants[late.ID] = task.Cancelled
	}
	if slices.ContainsFunc(firsts, func(id task.ID) bool { return q.store.DatabaseOf(id.Shard()) != q.store.DatabaseOf(late.ID.Shard()) }) {
		q.far++
	}
}

func TestTasksRunAfterOthersInTwoDatabasesThoughShardsAreMoved(t *testing.T) { runsAfter(t, true) }

func runsAfter(t *testing.T, moves bool) {
	q := startQueue(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	faults, left := rand.New(rand.NewPCG(seed, 1)), 100
	roll := func(int) error {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || faults.IntN(5) > 0 {
			return nil
		}
		left--
		return errFault
	}
	q.store.set(roll, roll)
	var all sync.WaitGroup
	for k := range uint64(4) {
		all.Go(func() {
			rng, ids := rand.New(rand.NewPCG(seed, 10+k)), task.NewIDs([32]byte{byte(seed), byte(k)})
			for range 20 {
				q.round(rng, ids)
			}
		})
	}
	from, to := q.a, q.b
	for n := 0; moves && n < 4; n++ {
		if err := placement.Move(t.Context(), from, to, shards(0, 60), nil); err != nil {
			t.Error(err)
		}
		from, to = to, from
	}
	all.Wait()
	for id, want := range q.wants {
		got, err := q.Get(t.Context(), id)
		for begin := time.Now(); errors.Is(err, task.ErrNotFound) || err == nil && got.State.Live(); got, err = q.Get(t.Context(), id) { // it may be on its way to its database
			if time.Sleep(time.Millisecond); time.Since(begin) > 5*time.Minute {
				_, why, err := q.Why(t.Context(), id)
				t.Fatalf("%v does not end: %+v, %v", id, why, err)
			}
		}
		if err != nil || got.State != want {
			t.Errorf("%v is %v, want %v: %v", id, got, want, err)
		}
	}
	if t.Logf("%d were accepted, %d of them after one in another database", len(q.wants), q.far); q.far == 0 {
		t.Error("none waits for one in another database")
	}
}

func TestARequestAfterATaskThatIsNotInAnotherDatabaseIsRefused(t *testing.T) {
	q := startQueue(t)
	ids := task.NewIDs([32]byte{1})
	for shard := range uint16(task.ShardCount) {
		if shard%64 != 0 {
			continue
		}
		missing := ids.NextIn(time.Now(), shard)
		for name, by := range map[string]func(engine.Request) error{"alone": q.alone, "in a transaction": q.within} {
			err := by(engine.Request{ID: ids.Next(time.Now()), Type: "late", After: []task.ID{missing}})
			if !errors.Is(err, engine.ErrNoSuchTask) || !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%s, after one in shard %d: %v", name, shard, err)
			}
		}
	}
	if all, err := q.Count(t.Context(), storage.Filter{}); err != nil || len(all) > 0 {
		t.Errorf("there are %v, %v", fmt.Sprint(all), err)
	}
}
