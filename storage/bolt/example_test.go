package bolt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/task"
)

// A balance and the task that informs the customer change together or not at all.
func ExampleTx_Bolt() {
	if err := withdraw(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: balance 75, task submitted
}

func withdraw(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := bolt.Open(filepath.Join(dir, "tasks.db"), bolt.Options{})
	if err != nil {
		return err
	}
	defer s.Close()

	now := task.Stamp(time.Now())
	notice := &task.Task{
		ID: task.NewIDs([32]byte{1}).Next(now), Version: 1, State: task.Submitted, Type: "mail",
		CreatedAt: now, ReadyAt: now, UpdatedAt: now,
	}
	return s.Update(ctx, func(tx storage.Tx) error {
		balances, err := tx.(*bolt.Tx).Bolt().CreateBucketIfNotExists([]byte("balances"))
		if err != nil {
			return err
		}
		if err := balances.Put([]byte("alice"), []byte("75")); err != nil {
			return err
		}
		if _, err := tx.Insert(ctx, notice); err != nil {
			return err
		}
		t, err := tx.Get(ctx, notice.ID)
		if err != nil {
			return err
		}
		fmt.Printf("balance %s, task %v\n", balances.Get([]byte("alice")), t.State)
		return nil
	})
}
