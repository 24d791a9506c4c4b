package sharded_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// A type that has no room keeps no other type from the same database, and its children arrive when there is room.
func TestChildrenWaitForRoomInAnotherDatabase(t *testing.T) {
	child := forgotten()
	child.MaxBacklog = policy.Backlog{Max: 20, WhenFull: policy.PauseSource}
	f := startFamilies(t, child)
	f.hold = make(chan struct{})
	f.set.Types["parent"] = policy.DefaultType()
	f.add(0, 100, 1)
	f.await("a full backlog", func() bool { return f.live("child") > 20 })
	close(f.hold)
	f.check(300)
}

// A request of a transaction is resolved in the other database by the rules of its type. A task that is added with the end of
// an attempt adds nothing if its key is taken, as in the same database.
func TestAChildWithAKeyThatIsTakenInAnotherDatabaseFollowsTheRulesOfItsType(t *testing.T) {
	for name, want := range map[policy.OnConflict]string{policy.KeepExisting: "old", policy.ReplaceExisting: "new"} {
		t.Run(name.String(), func(t *testing.T) {
			child := policy.DefaultType()
			child.Unique.OnConflict = name
			f := startFamilies(t, child)
			later := f.Now().Add(time.Hour)
			var ids []task.ID
			for i := range 20 {
				got, err := f.Submit(t.Context(), engine.Request{Type: "child", Key: fmt.Sprintf("%d 0", i), Payload: []byte("old"), At: later})
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, got[0].ID)
			}
			database := 0
			err := f.store.UpdateIn(t.Context(), database, func(tx storage.Tx) error {
				for i := range 20 {
					if _, err := f.SubmitTx(t.Context(), tx, engine.Request{Type: "child", Key: fmt.Sprintf("%d 0", i), Payload: []byte("new"), At: later}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			f.await("nothing is on its way", func() bool { return f.live("taskengine.relay") == 0 })
			var far int
			for _, id := range ids {
				if f.store.DatabaseOf(id.Shard()) != database {
					far++
				}
				if got, err := f.Get(t.Context(), id); err != nil || string(got.Payload) != want {
					t.Errorf("%v, %v", got, err)
				}
			}
			for i := 0; i < 20; i += 2 {
				f.add(i, 1, 1)
			}
			f.await("nothing is on its way", func() bool { return f.live("parent") == 0 && f.live("taskengine.relay") == 0 })
			for _, id := range ids {
				if got, err := f.Get(t.Context(), id); err != nil || string(got.Payload) != want {
					t.Errorf("%v, %v", got, err)
				}
			}
			f.await("the ends of the other children", func() bool { return f.count() == 20 && f.live("child") == 20 })
			if far == 0 {
				t.Error("all tasks are in the database of the transaction")
			}
		})
	}
}

// Whether a request of a transaction is late is found out before it leaves, so that none is lost because it waits. Tasks that are
// added with the end of an attempt are never late.
func TestNoChildIsLateBecauseItsDatabaseWasAway(t *testing.T) {
	child := forgotten()
	child.MaxLateness = time.Minute
	f := startFamilies(t, child)
	now := f.Now()
	var late int
	err := f.store.UpdateIn(t.Context(), 0, func(tx storage.Tx) error {
		for i := range 40 {
			at := now
			if i%2 == 1 {
				at = now.Add(-2 * time.Minute)
			}
			got, err := f.SubmitTx(t.Context(), tx, engine.Request{Type: "child", Key: fmt.Sprint("number ", i), At: at}, engine.Request{Type: "other", Key: strconv.Itoa(i), At: at})
			if i%2 == 0 && err != nil || i%2 == 1 && (!errors.Is(err, engine.ErrLate) || got[0].Outcome != engine.OutcomeLate || !got[1].Created) {
				return fmt.Errorf("%d: %+v, %w", i, got, err)
			}
			late += i % 2
		}
		return nil
	})
	if err != nil || late != 20 {
		t.Fatal(late, err)
	}
	f.await("nothing is on its way", func() bool { return f.live("taskengine.relay") == 0 })
	all, err := f.store.Count(t.Context(), storage.Filter{})
	if live := f.live("child") + f.live("other"); err != nil || live != 60 {
		t.Errorf("%d of 60, %v, %v", live, all, err)
	}
}

// A transaction that is not committed leaves nothing, in no database.
func TestNothingLeavesByATransactionThatIsRolledBack(t *testing.T) {
	f := startFamilies(t, forgotten())
	err := f.store.UpdateIn(t.Context(), 0, func(tx storage.Tx) error {
		for i := range 20 {
			if _, err := f.SubmitTx(t.Context(), tx, engine.Request{Type: "other", Key: strconv.Itoa(i)}); err != nil {
				return err
			}
		}
		return errFault
	})
	if !errors.Is(err, errFault) {
		t.Fatal(err)
	}
	all, err := f.store.Count(t.Context(), storage.Filter{})
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}
