package sharded_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

// exported returns the export of a store.
func exported(t *testing.T, s *sharded.Store, during func()) (settings map[string]string, rows []*task.Task, err error) {
	t.Helper()
	settings = make(map[string]string)
	err = s.Export(t.Context(), func(name string, value []byte) error {
		settings[name] = string(value)
		return nil
	}, func(r *task.Task) error {
		if rows = append(rows, r); len(rows) == 1 {
			during()
		}
		return nil
	})
	return settings, rows, err
}

func TestSettingsOutliveAnyPlace(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	for _, name := range []string{"kept", "removed"} {
		if err := s.SetSetting(t.Context(), name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetSetting(t.Context(), "removed", nil); err != nil {
		t.Fatal(err)
	}
	move(t, ps[0], ps[1], shards(0, 127), nil)
	// The first is taken out, and another comes before the rest.
	s = open(t, ps[1], newBackend("a new one", task.Shards{}))
	if value, err := s.Setting(t.Context(), "kept"); err != nil || string(value) != "kept" {
		t.Errorf("got %q, %v", value, err)
	}
	if value, err := s.Setting(t.Context(), "removed"); err != nil || value != nil {
		t.Errorf("got %q, %v", value, err)
	}
	settings, _, err := exported(t, s, func() {})
	if d := cmp.Diff(map[string]string{"kept": "kept"}, settings); d != "" || err != nil {
		t.Errorf("%v, %s", err, d)
	}
}

func TestTheCopiesOfASettingAreThoseOfThePlaces(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	for i, value := range []string{"old", "new"} {
		if err := ps[i+1].SetSetting(t.Context(), "x", []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range [][][]byte{{nil, []byte("old"), []byte("new")}, {[]byte("mine"), []byte("old"), []byte("new")}} {
		copies, err := s.SettingCopies(t.Context(), "x")
		if d := cmp.Diff(want, copies); d != "" || err != nil {
			t.Errorf("%v, %s", err, d)
		}
		if err := s.SwapSettingCopies(t.Context(), "x", nil, []byte("mine")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnExportHasTheRowsOfAllPlacesInTheOrderOfTheirNumbers(t *testing.T) {
	s := open(t, backends(3)...)
	want := put(t, s, 200, 1, 100, 2, 101, 201)
	_, got, err := exported(t, s, func() {})
	if err != nil || len(got) != len(want) {
		t.Fatalf("got %v, %v", got, err)
	}
	for i, shard := range []uint16{1, 2, 100, 101, 200, 201} {
		if of := got[i].ID.Shard(); of != shard || i > 0 && got[i].Seq <= got[i-1].Seq {
			t.Errorf("row %d is of shard %d, number %d", i, of, got[i].Seq)
		}
	}
}

func TestAnExportDuringWhichShardsAreMovedFails(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	put(t, s, 1, 200)
	_, _, err := exported(t, s, func() { move(t, ps[0], ps[1], shards(2, 3), nil) })
	if !errors.Is(err, sharded.ErrMoved) {
		t.Errorf("got %v", err)
	}
	move(t, ps[0], ps[1], shards(4, 5), func(next string) bool { return next != "deliver" })
	if _, _, err = exported(t, s, func() {}); !errors.Is(err, sharded.ErrMoving) {
		t.Errorf("before a move has ended: %v", err)
	}
}

func TestAnExportFailsIfAPlaceDoes(t *testing.T) {
	ps := backends(2)
	a := &brokenExport{ps[1]}
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: ps[0]}, {Name: "b", Store: a}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, 1, 200)
	_, rows, err := exported(t, s, func() {})
	if !errors.Is(err, errBroken) || len(rows) != 2 {
		t.Errorf("after %d rows: %v", len(rows), err)
	}
}

var errBroken = errors.New("broken")

// brokenExport is a backend with an export that fails at its end.
type brokenExport struct{ *backend }

func (b *brokenExport) Export(ctx context.Context, setting func(string, []byte) error, row func(*task.Task) error) error {
	return errors.Join(b.backend.Export(ctx, setting, row), errBroken)
}

func TestASweepIsOfAllPlaces(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	for i, shard := range []uint16{1, 100, 101, 200} {
		ended := row(shard)
		ended.State, ended.NextEventAt = task.Done, epoch.Add(time.Duration(i)*time.Hour)
		if _, err := s.Insert(t.Context(), ended); err != nil {
			t.Fatal(err)
		}
	}
	removed, next, err := s.Expire(t.Context(), epoch.Add(time.Hour))
	if err != nil || removed != 2 || !next.Equal(epoch.Add(2*time.Hour)) {
		t.Errorf("%d were removed, the next at %v: %v", removed, next, err)
	}
	ps[0].fail(errBroken)
	removed, _, err = s.Expire(t.Context(), epoch.Add(3*time.Hour))
	if !errors.Is(err, errBroken) || removed != 2 {
		t.Errorf("%d were removed though a backend failed: %v", removed, err)
	}
}

func TestRulesAreInAllPlaces(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	want := storage.TypeRules{Type: "mail", Priority: 3}
	if err := s.SetRules(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		got, err := p.Rules(t.Context(), "mail")
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v, %s", p.name, err, d)
		}
	}
}

func TestAFoldIsOfAllPlaces(t *testing.T) {
	if n, err := open(t, backends(3)...).Fold(t.Context()); n != 3 || err != nil {
		t.Errorf("%d notes were folded: %v", n, err)
	}
}
