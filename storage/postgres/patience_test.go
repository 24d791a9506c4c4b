package postgres_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine/task"
)

// A connection that swallows what is sent is given up. The store then works with another.
func TestANetworkThatSwallowsEverythingIsNotWaitedForForever(t *testing.T) {
	url := server.Database(t)
	s := open(t, url)
	row := &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}
	// Somebody has locked the row, which is the same as a network that is silent.
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := s.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "begin; select from taskengine.task for update"); err != nil {
		t.Fatal(err)
	}
	grab := task.Change{Ref: row.Ref(), To: task.Processing, At: moment}
	var timeout net.Error
	if _, err := s.Swap(t.Context(), grab); !errors.Is(err, context.DeadlineExceeded) && !(errors.As(err, &timeout) && timeout.Timeout()) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	// Whether the first one was made is in doubt: it may have been on its way.
	if _, err := s.Swap(t.Context(), grab); err != nil {
		t.Error(err)
	}
	if got, err := s.Get(t.Context(), row.ID); err != nil || got.State != task.Processing || got.Version != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}
