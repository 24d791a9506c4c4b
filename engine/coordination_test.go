package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/coord/record"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
)

// identified is a membership of a cluster with an identity.
type identified struct {
	coord.Membership
	as coord.Identity
}

func (m identified) Identity(context.Context) (coord.Identity, error) { return m.as, nil }

// settingsOf returns the settings of a store.
func settingsOf(t *testing.T, s *memory.Store) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range []string{"limit-values", "taskengine/coordination"} {
		value, err := s.Setting(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(value)
	}
	return all
}

func TestANodeOfAnotherClusterIsRefusedAndChangesNothing(t *testing.T) {
	keyed := one("work", nil)
	keyed.Limits = map[string]policy.Limit{"partner": {Name: "partner", Max: 1, Per: "payload.partner"}}
	work := keyed.Types["work"]
	work.Limits = []string{"partner"}
	keyed.Types["work"] = work
	memberships := map[string]coord.Membership{
		"alone":     nil,
		"a cluster": identified{local.New(), coord.Identity{Driver: "postgres", ID: "1"}},
		"another":   identified{local.New(), coord.Identity{Driver: "postgres", ID: "2"}},
	}
	for first, m := range memberships {
		s := memory.New()
		open := func(m coord.Membership, set policy.Set) error {
			e, err := engine.Open(t.Context(), engine.Config{Store: s, Policies: set, Coordinator: coord.Coordinator{Membership: m}})
			if err == nil {
				err = e.Close(t.Context())
			}
			return err
		}
		if err := open(m, keyed); err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		before := settingsOf(t, s)
		if err := open(m, keyed); err != nil {
			t.Errorf("%s again: %v", first, err)
		}
		for second, other := range memberships {
			if second == first {
				continue
			}
			if err := open(other, one("work", nil)); !errors.Is(err, record.ErrOther) {
				t.Errorf("%s after %s: %v", second, first, err)
			}
		}
		for name, value := range settingsOf(t, s) {
			if value != before[name] || !strings.Contains(before[name], "{") {
				t.Errorf("after %s, a refused node has changed %s from %s to %s", first, name, before[name], value)
			}
		}
	}
}

func TestNodesOfOneClusterInMemoryAreOneProcess(t *testing.T) {
	s := memory.New()
	first := local.New()
	for _, m := range []coord.Membership{first, first.Peer(), nil, local.New()} {
		e, err := engine.Open(t.Context(), engine.Config{Store: s, Policies: one("work", nil), Coordinator: coord.Coordinator{Membership: m}})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
