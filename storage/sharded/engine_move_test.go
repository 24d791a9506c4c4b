package sharded_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestAnEngineRunsEachTaskOnceWhileShardsAreMoved(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d", seed)
			cryptotest.SetGlobalRandom(t, seed)
			ps := backends(3)
			s := open(t, ps...)
			var mu sync.Mutex
			runs := make(map[task.ID]int)
			e, err := engine.Open(t.Context(), engine.Config{
				Store: s, Policies: policy.Set{Slots: 20, Types: map[string]policy.Type{"pay": policy.DefaultType()}},
				Handlers: map[string]task.Handler{"pay": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
					mu.Lock()
					runs[t.ID]++
					mu.Unlock()
					time.Sleep(50 * time.Millisecond)
					return []byte("paid"), nil
				})},
			})
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(seed, 0))
			enough := make(chan struct{})
			var moves sync.WaitGroup
			moves.Go(func() {
				for {
					select {
					case <-enough:
						return
					default:
						moveSome(t, ps, rng)
					}
				}
			})
			accepted, refused, maybe := submitFor(t, e, 20*time.Second)
			if err := e.WaitTasks(t.Context(), accepted...); err != nil { // some while shards are still moved
				t.Error(err)
			}
			close(enough)
			moves.Wait()
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if len(accepted) == 0 || refused == 0 {
				t.Errorf("%d tasks are accepted and %d refused", len(accepted), refused)
			}
			count, err := s.Count(t.Context(), storage.Filter{})
			if n := count[storage.StateType{State: task.Done, Type: "pay"}]; err != nil || len(count) != 1 || n < int64(len(accepted)) || n > int64(len(accepted)+maybe) {
				t.Errorf("%d tasks are accepted, and perhaps %d more, and there are %v: %v", len(accepted), maybe, count, err)
			}
			for _, id := range accepted {
				if got, err := s.Get(t.Context(), id); err != nil || got.State != task.Done || got.Attempt != 1 || runs[id] != 1 {
					t.Errorf("task %v of shard %d has run %d times: %v", id, id.Shard(), runs[id], err)
				}
			}
		})
	}
}

// moveSome moves some shards of a random backend to another, in a second or two.
func moveSome(t *testing.T, ps []*backend, rng *rand.Rand) {
	from, to := ps[rng.IntN(len(ps))], ps[rng.IntN(len(ps))]
	first := rng.IntN(task.ShardCount)
	some := shards(first, min(task.ShardCount-1, first+rng.IntN(60)))
	here := from.home.Load().Owned
	rest := here.Without(&some)
	if some = here.Without(&rest); from == to || some.IsEmpty() {
		return
	}
	move(t, from, to, some, func(string) bool {
		time.Sleep(time.Duration(rng.IntN(int(500 * time.Millisecond))))
		return true
	})
}

// submitFor submits tasks, one or two at a time. It returns the accepted ones, the number of tasks that were
// refused because their shards are being moved, which leave nothing, and the number of tasks that were refused
// with another one and may have been added.
func submitFor(t *testing.T, e *engine.Engine, d time.Duration) (accepted []task.ID, refused, maybe int) {
	for begin, n := time.Now(), 0; time.Since(begin) < d; n++ {
		reqs := make([]engine.Request, 1+n%5/4)
		for i := range reqs {
			reqs[i].Type = "pay"
		}
		got, err := e.Submit(t.Context(), reqs...)
		switch {
		case err == nil:
			for _, r := range got {
				accepted = append(accepted, r.ID)
			}
		case !errors.Is(err, storage.ErrUnavailable) || len(reqs) == 1 && !errors.Is(err, storage.ErrUndone):
			t.Error(err)
		case len(reqs) == 1:
			refused++
		default:
			maybe += len(reqs) - 1
		}
		time.Sleep(10 * time.Millisecond)
	}
	return accepted, refused, maybe
}
