package record_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/record"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

func cluster(id string) coord.Identity {
	return coord.Identity{Driver: "postgres", ID: id, Name: "at " + id}
}

func TestTheFirstNodeRecordsItsClusterAndOthersAreRefused(t *testing.T) {
	s := memory.New()
	if _, found, err := record.Read(t.Context(), s); err != nil || found {
		t.Errorf("a new store has a record: %v", err)
	}
	elsewhere := cluster("1")
	elsewhere.Name = "another address of the same database"
	for _, same := range []coord.Identity{cluster("1"), cluster("1"), elsewhere} {
		if err := record.Check(t.Context(), s, same); err != nil {
			t.Error(err)
		}
	}
	for _, other := range []coord.Identity{cluster("2"), {Driver: "etcd", ID: "1"}, coord.LocalIdentity} {
		err := record.Check(t.Context(), s, other)
		if !errors.Is(err, record.ErrOther) {
			t.Fatalf("%v: %v", other, err)
		}
		for _, says := range []string{"postgres, at 1, id 1", other.String(), "taskengine coordination reset"} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("it does not say %q: %v", says, err)
			}
		}
	}
	if is, found, err := record.Read(t.Context(), s); err != nil || !found || is != cluster("1") {
		t.Errorf("the record is %v, %t, %v", is, found, err)
	}
}

func TestARecordThatIsRemovedLetsTheNextNodeDecide(t *testing.T) {
	s := memory.New()
	if err := record.Remove(t.Context(), s, cluster("1")); err != nil {
		t.Errorf("there is nothing to remove: %v", err)
	}
	if err := record.Check(t.Context(), s, cluster("1")); err != nil {
		t.Fatal(err)
	}
	if err := record.Remove(t.Context(), s, cluster("2")); !errors.Is(err, record.ErrChanged) {
		t.Errorf("the record of another cluster is removed: %v", err)
	}
	if err := record.Remove(t.Context(), s, cluster("1")); err != nil {
		t.Fatal(err)
	}
	if err := record.Check(t.Context(), s, cluster("2")); err != nil {
		t.Error(err)
	}
	if err := record.Check(t.Context(), s, cluster("1")); !errors.Is(err, record.ErrOther) {
		t.Error(err)
	}
}

func TestADamagedRecordIsNoPermission(t *testing.T) {
	for _, damaged := range []string{"", "{", "null", "{}", `{"id": "1"}`} {
		s := memory.New()
		if err := s.SetSetting(t.Context(), storage.CoordinationSetting, []byte(damaged)); err != nil {
			t.Fatal(err)
		}
		if err := record.Check(t.Context(), s, cluster("1")); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}

// several is a store of several databases, in the order that one node knows.
type several struct {
	*memory.Store // of the tasks, which nothing uses
	in            []place
}

// place is one of the databases.
type place interface {
	storage.Settings
	SwapSetting(ctx context.Context, name string, old, value []byte) (bool, error)
}

func (s several) SettingCopies(ctx context.Context, name string) (copies [][]byte, err error) {
	for _, one := range s.in {
		value, err := one.Setting(ctx, name)
		if err != nil {
			return nil, err
		}
		copies = append(copies, value)
	}
	return copies, nil
}

func (s several) SwapSettingCopies(ctx context.Context, name string, old, value []byte) error {
	for _, one := range s.in {
		if _, err := one.SwapSetting(ctx, name, old, value); err != nil {
			return err
		}
	}
	return nil
}

// turns lets nodes take turns: each operation of a database is one.
type turns struct {
	waits chan bool // the node waits for its next turn; false: it has ended
	next  chan struct{}
}

func (n turns) await() {
	n.waits <- true
	<-n.next
}

// inTurns is a database. Operations of a node wait for its turns.
type inTurns struct {
	*memory.Store
	turns
}

func (s inTurns) Setting(ctx context.Context, name string) ([]byte, error) {
	s.await()
	return s.Store.Setting(ctx, name)
}

func (s inTurns) SwapSetting(ctx context.Context, name string, old, value []byte) (bool, error) {
	s.await()
	return s.Store.SwapSetting(ctx, name, old, value)
}

func TestOfNodesThatStartAtOnceThoseOfOneClusterAtMostAreAccepted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		databases := []*memory.Store{memory.New(), memory.New()}[:rapid.IntRange(1, 2).Draw(r, "databases")]
		nodes, errs := make([]turns, rapid.IntRange(2, 3).Draw(r, "nodes")), make([]error, 3)
		var waiting []int
		for i := range nodes {
			n := turns{make(chan bool), make(chan struct{})}
			in := several{Store: databases[0]}
			for _, d := range databases {
				in.in = append(in.in, inTurns{d, n})
			}
			if i%2 == 1 && rapid.Bool().Draw(r, "in another order") {
				slices.Reverse(in.in)
			}
			go func() {
				errs[i] = record.Check(context.Background(), in, cluster(fmt.Sprint(i%2)))
				n.waits <- false
			}()
			<-n.waits
			nodes[i], waiting = n, append(waiting, i)
		}
		for len(waiting) > 0 {
			at := rapid.IntRange(0, len(waiting)-1).Draw(r, "turn")
			n := nodes[waiting[at]]
			n.next <- struct{}{}
			if !<-n.waits {
				waiting = slices.Delete(waiting, at, at+1)
			}
		}
		accepted := make(map[int]bool)
		for i, err := range errs[:len(nodes)] {
			if err == nil {
				accepted[i%2] = true
			} else if !errors.Is(err, record.ErrOther) {
				r.Fatal(err)
			}
		}
		if len(accepted) > 1 || len(databases) == 1 && len(accepted) == 0 {
			r.Fatalf("nodes of %d clusters are accepted", len(accepted))
		}
	})
}

func TestADatabaseThatIsAddedGetsTheRecord(t *testing.T) {
	a, b := memory.New(), memory.New()
	if err := record.Check(t.Context(), a, cluster("1")); err != nil {
		t.Fatal(err)
	}
	if err := record.Check(t.Context(), several{a, []place{a, b}}, cluster("1")); err != nil {
		t.Fatal(err)
	}
	if err := record.Check(t.Context(), b, cluster("2")); !errors.Is(err, record.ErrOther) {
		t.Errorf("a node that knows the new database alone: %v", err)
	}
}

// A node with an outdated configuration must not overrule the nodes that use one of the databases.
func TestARecordInAnyOfSeveralDatabasesCounts(t *testing.T) {
	a, b := memory.New(), memory.New()
	for s, id := range map[*memory.Store]string{a: "1", b: "2"} {
		if err := record.Check(t.Context(), s, cluster(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, order := range [][]place{{a, b}, {b, a}} {
		for _, id := range []string{"1", "2"} {
			if err := record.Check(t.Context(), several{a, order}, cluster(id)); !errors.Is(err, record.ErrOther) {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	if is, _, err := record.Read(t.Context(), b); err != nil || is.ID != "2" {
		t.Errorf("a refused node has changed the record to %v, %v", is, err)
	}
}
