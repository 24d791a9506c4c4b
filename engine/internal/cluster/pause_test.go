package cluster

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine/internal/core"
)

// isPaused reports whether a type is paused on a node.
func (n *node) isPaused(typ string) (is bool) {
	n.decide(func(c *core.Core, _ time.Time) {
		for _, s := range c.Types() {
			is = is || s.Name == typ && s.Paused
		}
	})
	return is
}

func TestAPauseReachesOtherNodesAtOnceByAHintAndElseWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		a := join(t, store, first.Peer(), nil)
		b := join(t, store, first.Peer(), nil)
		c := join(t, store, first.Peer(), func(c *Config) { c.Coordinator.Bus = nil }) // which hears nothing
		synctest.Wait()
		for _, paused := range []bool{true, false} {
			if err := a.Pause(t.Context(), "work", Pause{Paused: paused}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if a.isPaused("work") != paused || b.isPaused("work") != paused || c.isPaused("work") == paused {
				t.Errorf("at once, it is paused on a: %t, b: %t, c: %t; want %t, but for c", a.isPaused("work"), b.isPaused("work"), c.isPaused("work"), paused)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if c.isPaused("work") != paused {
				t.Errorf("after a second, it is paused on c: %t", !paused)
			}
		}
	})
}

func TestAPauseOfAnotherNodeCountsThoughItRestoresTheSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		a := join(t, store, first.Peer(), nil)
		deaf := join(t, store, first.Peer(), func(c *Config) { c.Coordinator.Bus = nil })
		for _, pause := range []struct {
			by     *node
			paused bool
		}{{a, true}, {a, false}, {deaf, true}, {a, false}} {
			if err := pause.by.Pause(t.Context(), "work", Pause{Paused: pause.paused}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if deaf.isPaused("work") != pause.paused {
				t.Errorf("it is paused: %t, want %t", deaf.isPaused("work"), pause.paused)
			}
		}
	})
}

func TestPausesAreLoadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		n := open(t, store, nil)
		if err := n.Pause(t.Context(), "work", Pause{Paused: true}); err != nil {
			t.Fatal(err)
		}
		n.close()
		n = open(t, store, nil)
		if err := n.LoadPauses(t.Context()); err != nil || !n.isPaused("work") {
			t.Errorf("it is paused: %t, %v", n.isPaused("work"), err)
		}
	})
}

func TestTypesThatAreNotConfiguredMayBePausedUpToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, newStore(t), nil)
		for i := range maxUnknownPauses {
			if err := n.Pause(t.Context(), fmt.Sprint("type ", i), Pause{Paused: true}); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Pause(t.Context(), "one more", Pause{Paused: true}); !errors.Is(err, ErrTooManyPauses) {
			t.Errorf("got %v", err)
		}
		for _, typ := range []string{"work", "type 1"} {
			if err := n.Pause(t.Context(), typ, Pause{Paused: false}); err != nil {
				t.Errorf("%s: %v", typ, err)
			}
		}
	})
}
