package cells_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/task"
)

func TestNodesOfTwoStoresShareLimitsAndNeitherMembersNorRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var lists [3][]coord.Member
		var leads [3]bool
		var ids [3]coord.Identity
		held := int64(0)
		for i, store := range []string{"a", "a", "b"} {
			n := cells.New(m.connect(nil), cells.Options{Driver: "memory", Name: "test", Store: store, Lease: lease, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			t.Cleanup(func() { _ = n.Close() })
			var err error
			if ids[i], err = n.Identity(t.Context()); err != nil {
				t.Fatal(err)
			}
			go func() {
				_ = n.Join(t.Context(), coord.Member{Incarnation: task.ID{byte(i + 1)}}, func(list []coord.Member) { lists[i] = list })
			}()
			go func() {
				_ = n.Lead(t.Context(), "cleaner", func(ctx context.Context) error {
					leads[i] = true
					<-ctx.Done()
					return nil
				})
			}()
			permits := holding(t, n, task.ID{9, byte(i)})
			want(n, task.ID{9, byte(i)}, 1, 1)
			time.Sleep(lease)
			synctest.Wait()
			held += permits.Load()
		}
		if len(lists[0]) != 2 || len(lists[1]) != 2 || len(lists[2]) != 1 || lists[2][0].Incarnation != (task.ID{3}) {
			t.Errorf("the lists of members are %v, want those of each store", lists)
		}
		if leads != [3]bool{true, false, true} {
			t.Errorf("the nodes lead: %v, want the first one of each store", leads)
		}
		if held != 2 {
			t.Errorf("the nodes hold %d permits, want the 2 of the limit", held)
		}
		if !ids[0].Is(ids[1]) || ids[0].Is(ids[2]) {
			t.Errorf("the identities are %v, want one for each store", ids)
		}
	})
}
