package sharded_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// attach calls fn within a transaction of one backend, as the store has it.
func attach(t *testing.T, s interface {
	In(name string, t storage.Tx) (storage.Tx, error)
}, p *backend, fn func(tx storage.Tx) error,
) error {
	t.Helper()
	return p.Update(t.Context(), func(own storage.Tx) error {
		tx, err := s.In(p.name, own)
		if err != nil {
			t.Fatal(err)
		}
		return fn(tx)
	})
}

func TestATransactionOfOnePlaceTakesItsRows(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	old := put(t, s, 200)[0]
	fresh := row(201)
	hooked := false
	if err := attach(t, s, ps[1], func(tx storage.Tx) error {
		if got, want := *tx.(storage.ShardBound).Shards(), shards(128, 255); got != want {
			t.Errorf("it takes the shards %s, want %s", &got, &want)
		}
		tx.OnCommit(func() { hooked = true })
		_, err := tx.Insert(t.Context(), fresh)
		if err != nil {
			return err
		}
		now, err := tx.Swap(t.Context(), grab(old))
		if err := some(now, err); err != nil {
			return err
		}
		if now[0].Seq != old.Seq {
			t.Errorf("number %d has become %d", old.Seq, now[0].Seq)
		}
		page, err := tx.Ready(t.Context(), storage.ReadyQuery{Queue: fresh.Queue(), Limit: 9})
		if err != nil || len(page) != 1 || page[0] != fresh.Trigger() {
			t.Errorf("got %v, %v", page, err)
		}
		_, err = tx.Swap(t.Context())
		return err
	}); err != nil || !hooked {
		t.Fatalf("got %v, hook called: %t", err, hooked)
	}
	got, err := s.Get(t.Context(), fresh.ID)
	if err != nil || got.Seq != fresh.Seq {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestATransactionOfOnePlaceRefusesTheRowsOfOthers(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	old := put(t, s, 3)[0]
	for name, verb := range map[string]func(tx storage.Tx) error{
		"Insert":   func(tx storage.Tx) error { _, err := tx.Insert(t.Context(), row(3)); return err },
		"Swap":     func(tx storage.Tx) error { _, err := tx.Swap(t.Context(), grab(old)); return err },
		"Note":     func(tx storage.Tx) error { _, err := tx.Note(t.Context(), task.Note{Ref: old.Ref()}); return err },
		"Delete":   func(tx storage.Tx) error { _, err := tx.Delete(t.Context(), old.Ref()); return err },
		"Existing": func(tx storage.Tx) error { _, err := tx.Existing(t.Context(), row(3)); return err },
		"Get":      func(tx storage.Tx) error { _, err := tx.Get(t.Context(), old.ID); return err },
	} {
		err := attach(t, s, ps[1], verb)
		if !errors.Is(err, storage.ErrElsewhere) || !strings.Contains(err.Error(), "shard 3 is in a") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestATransactionOfOnePlaceFindsThatShardsWereMoved(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	old := put(t, s, 3)[0]
	swap := func(tx storage.Tx) error { return some(tx.Swap(t.Context(), grab(old))) }
	move(t, ps[0], ps[1], shards(3, 3), nil)
	if err := attach(t, s, ps[0], swap); !errors.Is(err, storage.ErrElsewhere) { // and not that it is stale
		t.Errorf("where it was: %v", err)
	}
	if err := attach(t, s, ps[1], swap); err != nil {
		t.Errorf("where it is: %v", err)
	}
	move(t, ps[1], ps[0], shards(200, 201), nil)
	if err := attach(t, s, ps[0], func(tx storage.Tx) error { _, err := tx.Insert(t.Context(), row(200)); return err }); err != nil {
		t.Errorf("an insert where nobody has looked yet: %v", err)
	}
}

func TestATransactionOfAPlaceThatIsNoneIsRefused(t *testing.T) {
	s := open(t, backends(2)...)
	if _, err := s.In("c", nil); err == nil || !strings.Contains(err.Error(), "there is no database c among a, b") {
		t.Errorf("got %v", err)
	}
}
