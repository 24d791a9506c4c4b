package cells_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/task"
)

func TestContentsAreWhatNodesKeepUntilTheyAreCleaned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		n := cells.New(m.connect(nil), cells.Options{Driver: "memory", Name: "test", Store: "s", Lease: lease, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() { _ = n.Close() })
		looks := node(t, m.connect(nil))
		ctx, leave := context.WithCancel(t.Context())
		id, err := n.Identity(ctx)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = n.Join(ctx, coord.Member{Incarnation: task.ID{1}, Name: "n1"}, func([]coord.Member) {}) }()
		go func() {
			_ = n.Lead(ctx, "cleaner", func(ctx context.Context) error { <-ctx.Done(); return nil })
		}()
		go func() { _ = n.Hold(ctx, task.ID{1}, func([]coord.Holding) {}) }()
		synctest.Wait()
		want(n, task.ID{1}, 1, 1)
		if _, err := n.Draw(ctx, coord.Draw{Name: "rate", Interval: time.Hour, Burst: 1, Tokens: 1}); err != nil {
			t.Fatal(err)
		}
		set, _, err := n.Swap(ctx, "limits", "partner/acme", 0, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		time.Sleep(lease)
		got, err := looks.Contents(ctx)
		expected := coord.Contents{
			Cluster:  strings.TrimSuffix(id.ID, "/s"),
			Members:  []coord.StoreMember{{Store: "s", Member: coord.Member{Incarnation: task.ID{1}, Name: "n1"}}},
			Leaders:  []coord.Leader{{Store: "s", Role: "cleaner", Node: "n1"}},
			Limits:   []coord.LimitContents{{Name: "limit", Max: 2, Holders: []coord.Holder{{Holder: task.ID{1}, Held: 1, Want: 1, Fence: 1, Since: now.Round(0)}}}},
			Rates:    []coord.RateContents{{Name: "rate", Full: now.Add(time.Hour).Round(0).Local()}},
			Settings: map[string][]coord.Setting{"limits": {set}},
		}
		if len(got.Limits) == 1 {
			got.Limits[0].Holders[0].Since = now.Round(0)
		}
		if err != nil || !reflect.DeepEqual(got, expected) {
			t.Errorf("it is kept, %v:\n%+v, want\n%+v", err, got, expected)
		}
		if _, err := looks.Clean(ctx); !errors.Is(err, coord.ErrInUse) {
			t.Errorf("while a node is alive it is cleaned with %v", err)
		}

		leave()
		time.Sleep(lease)
		if gone, err := looks.Clean(t.Context()); err != nil || len(gone.Settings) != 1 || len(gone.Rates) != 1 || gone.Cluster != expected.Cluster {
			t.Errorf("cleaned are %+v, %v", gone, err)
		}
		if got, err := looks.Contents(t.Context()); err != nil || !reflect.DeepEqual(got, coord.Contents{Settings: map[string][]coord.Setting{}}) {
			t.Errorf("then it is kept: %+v, %v", got, err)
		}
	})
}
