package postgres_test

import (
	"context"
	"testing"
	"time"

	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
)

// A change of a limit reaches the other nodes by a notification. Their heartbeats would bring it, too, but
// later than this test waits.
func TestAChangeOfALimitReachesAllNodes(t *testing.T) {
	url := server.Database(t)
	set := types("mail")
	p := set.Types["mail"]
	p.Limits = []string{"all"}
	set.Types["mail"] = p
	set.Limits["all"] = policy.Limit{Name: "all", Max: 50}
	open := func(name string) *engine.Engine {
		s := postgrestest.Open(t, url)
		c, err := coordination.New(s.Pool(), coordination.Options{Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // it returns nil
		e, err := engine.Open(t.Context(), engine.Config{
			Store: s, Policies: set, Name: name, Coordinator: c.Coordinator(), Lease: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			if err := e.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	a, b := open("a"), open("b")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	heard := make(chan []engine.LimitSetting, 100)
	go func() { _ = b.WatchLimits(ctx, func(all []engine.LimitSetting) { heard <- all }) }()
	next := func() []engine.LimitSetting {
		t.Helper()
		select {
		case all := <-heard:
			return all
		case <-ctx.Done():
			t.Fatal("a node does not learn of a change")
			panic("unreachable")
		}
	}
	if all := next(); len(all) != 0 {
		t.Fatalf("it got %+v first", all)
	}
	var last uint64
	for most := range 5 {
		begin := time.Now()
		s, err := a.SetLimit(ctx, engine.LimitSetting{Limit: "all", Max: &most}, &last)
		if err != nil {
			t.Fatal(err)
		}
		all := next()
		if len(all) != 1 || *all[0].Max != most || all[0].Version != s.Version || all[0].Node != "a" {
			t.Errorf("it got %+v, want %+v", all, s)
		}
		if l, err := b.Limit(ctx, "all", ""); err != nil || l.Max != most {
			t.Errorf("there it is %+v, %v", l, err)
		}
		t.Logf("learned after %v", time.Since(begin))
		last = s.Version
	}
	if err := b.UnsetLimit(ctx, "all", "", &last); err != nil {
		t.Fatal(err)
	}
	if all := next(); len(all) != 0 {
		t.Errorf("it got %+v", all)
	}
	if l, err := a.Limit(ctx, "all", ""); err != nil || l.Max != 50 && l.Setting() == nil {
		t.Errorf("there it is %+v, %v", l, err)
	}
}
