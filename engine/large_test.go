//go:build !race

package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
)

// More tasks are uncertain than the engine remembers: it reads the whole store instead.
func TestUncertainTasksBeyondMemoryAreFound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("x", nil)
		set.Slots = 50
		n, s := startLossy(t, set, handle("x", j.work(time.Millisecond)))
		s.answer(func(inserted, _ int) bool { return inserted > 0 }, nil)
		const many = 25_000
		reqs := make([]engine.Request, 1000)
		for i := range reqs {
			reqs[i] = engine.Request{Type: "x"}
		}
		failed := 0
		for range many / len(reqs) {
			if _, err := n.Submit(t.Context(), reqs...); err != nil {
				failed++
			}
		}
		s.answer(nil, nil)
		if failed < 11 {
			t.Fatalf("only %d answers were lost", failed)
		}
		time.Sleep(5 * time.Minute)
		if got := len(j.payloads()); got != many {
			t.Errorf("%d of %d ran", got, many)
		}
	})
}

func TestThereAreAtMostTenThousandSettings(t *testing.T) {
	config := local.New()
	for i := range engine.MaxLimitSettings - 1 {
		if _, _, err := config.Swap(t.Context(), "limits", fmt.Sprint("partner/p", i), 0, []byte(`{"max":3}`)); err != nil {
			t.Fatal(err)
		}
	}
	n := &node{t: t, store: memory.New(), config: engine.Config{Policies: partners(), Coordinator: coord.Coordinator{Settings: config}}}
	n.config.Store = n.store
	n.open()
	t.Cleanup(n.close)
	most := 7
	set := func(value string) error {
		_, err := n.SetLimit(t.Context(), engine.LimitSetting{Limit: "partner", Value: value, Max: &most}, nil)
		return err
	}
	if err := set("last"); err != nil {
		t.Error(err)
	}
	if err := set("one more"); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "10000") {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(set("last"), n.UnsetLimit(t.Context(), "partner", "p7", nil), set("one more")); err != nil {
		t.Error(err)
	}
	for _, value := range []string{"paused", strings.Repeat("ü/%", 250)} { // this is never refused because there are many
		if _, err := n.SetLimit(t.Context(), engine.LimitSetting{Limit: "partner", Value: value, Paused: true}, nil); err != nil {
			t.Error(err)
		}
	}
	limits, err := n.Limits(t.Context())
	if err != nil || len(limits) != engine.MaxLimitSettings+4 || !slices.IsSortedFunc(limits, func(a, b engine.LimitStatus) int {
		return strings.Compare(a.Name+"/"+a.Value, b.Name+"/"+b.Value)
	}) {
		t.Errorf("%d limits, %v", len(limits), err)
	}
}

func TestOneNodeDoesNotKeepPermitsFromAnotherForLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, load := newGroup(t), newGauge()
		set := clusterLimits(policy.Limit{Name: "few", Max: 2})
		nodes := g.joinAll(3, set, load.work(10*time.Millisecond))
		backlog(nodes[:1], 20_000, func(int) string { return `"x"` }) // 100 seconds of work, on all nodes
		time.Sleep(5 * time.Second)
		for _, n := range nodes {
			begin := time.Now()
			priority := uint8(0)
			id := n.submit(engine.Request{Type: "work", Priority: &priority})
			n.end(id)
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("an urgent task of %s waited for %v", n.name, took)
			}
		}
	})
}
