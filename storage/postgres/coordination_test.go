//go:build !race

package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/coord/record"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// opens opens an engine on a store as a member of a cluster, nil for a node alone.
func opens(t *testing.T, s *postgres.Store, m coord.Membership) error {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Config{Store: s, Policies: types("mail"), Coordinator: coord.Coordinator{Membership: m}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return e.Close(ctx)
}

// by connects to the cluster of a database.
func by(t *testing.T, s *postgres.Store) *coordination.Coord {
	t.Helper()
	c, err := coordination.New(s.Pool(), coordination.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it returns nil
	return c
}

// Without the refusal the second node would take the first one for dead, and run its task again.
func TestANodeThatDoesNotSeeTheOthersTakesNoTaskOfTheirs(t *testing.T) {
	url := server.Database(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	n := join(t, url, types("mail"), map[string]work{"mail": func(ctx context.Context, _ *node, _ *task.Task) ([]byte, error) {
		close(began)
		select {
		case <-goOn:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}})
	id := n.submit(engine.Request{Type: "mail"})
	<-began
	s := postgrestest.Open(t, url)
	elsewhere := by(t, postgrestest.Open(t, postgrestest.Tables(t, server)))
	for name, m := range map[string]coord.Membership{"alone": nil, "in another database": elsewhere} {
		if err := opens(t, s, m); !errors.Is(err, record.ErrOther) {
			t.Errorf("a node %s: %v", name, err)
		}
	}
	if err := opens(t, s, by(t, s)); err != nil {
		t.Errorf("a node of the same cluster: %v", err)
	}
	if got, err := n.Get(t.Context(), id); err != nil || got.State != task.Processing || got.Attempt != 1 {
		t.Errorf("the task is %+v, %v", got, err)
	}
	close(goOn)
	n.end(id, task.Done)
	if runs := n.runs(id); runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
}

func TestNodesOfAClusterAreRefusedByAStoreOfANodeAlone(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	if err := opens(t, s, nil); err != nil {
		t.Fatal(err)
	}
	if err := opens(t, s, by(t, s)); !errors.Is(err, record.ErrOther) {
		t.Errorf("got %v", err)
	}
	if err := opens(t, s, nil); err != nil {
		t.Error(err)
	}
	if err := record.Remove(t.Context(), s, coord.LocalIdentity); err != nil {
		t.Fatal(err)
	}
	if err := opens(t, s, by(t, s)); err != nil {
		t.Errorf("after the record was removed: %v", err)
	}
}

// Versions before the record have left none, and an ID of the cluster neither.
func TestAStoreOfAnEarlierVersionGetsTheRecordOfItsFirstNode(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	c := by(t, s)
	if err := opens(t, s, c); err != nil {
		t.Fatal(err)
	}
	if err := s.SetSetting(t.Context(), storage.CoordinationSetting, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pool().Exec(t.Context(), "delete from taskengine.setting"); err != nil {
		t.Fatal(err)
	}
	if err := opens(t, s, c); err != nil {
		t.Fatal(err)
	}
	own, err := c.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if is, found, err := record.Read(t.Context(), s); err != nil || !found || is != own {
		t.Errorf("the record is %v, %t, %v; want %v", is, found, err, own)
	}
}
