package server_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// sparing is a store that cancels no task but spared until release is closed.
type sparing struct {
	*memory.Store
	spared  task.ID
	release chan struct{}
}

func (s *sparing) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	if slices.ContainsFunc(b.Swap, func(c task.Change) bool { return c.To == task.Cancelled && c.ID != s.spared }) {
		return storage.Later(func() (storage.Outcome, error) {
			<-s.release
			return storage.CommitIn(ctx, s.Update, b).Wait()
		})
	}
	return storage.CommitLaterIn(ctx, s.Update, b)
}

// The cancel of a tree answers before the deadline of the client, and says that there are more tasks.
func TestTheCancelOfATreeGoesOnInAnotherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sparing{Store: memory.New(), spared: task.ID{1}, release: make(chan struct{})}
		e, err := engine.Open(t.Context(), engine.Config{
			Store: s, Policies: policy.Set{Slots: 8, Types: map[string]policy.Type{"tree": policy.DefaultType(), "idle": policy.DefaultType()}},
			Handlers: map[string]task.Handler{"tree": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
				idle := task.Request{Type: "idle"}
				return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "page"}}, time.Time{}, task.WithChildren("page", idle, idle))
			})},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(context.Background())
		if _, err := e.Submit(t.Context(), engine.Request{ID: s.spared, Type: "tree"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		api := server.NewAPI(server.APIConfig{Engine: e})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		req := &taskenginev1.CancelRequest{Id: s.spared.String(), Tree: true}
		res, err := api.Cancel(ctx, req)
		if err != nil || !res.GetMore() || res.GetCancelled() != 1 || res.GetTask().GetState() != "cancelled" || ctx.Err() != nil {
			t.Errorf("at first it says %v, %v", res, err)
		}
		close(s.release)
		res, err = api.Cancel(t.Context(), req)
		if err != nil || res.GetMore() {
			t.Errorf("then it says %v, %v", res, err)
		}
		for one, err := range e.Tree(t.Context(), s.spared) {
			if err != nil || one.Task.State != task.Cancelled {
				t.Errorf("the tree has %+v, %v", one.Task, err)
			}
		}
	})
}
