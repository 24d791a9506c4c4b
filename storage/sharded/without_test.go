package sharded_test

import (
	"context"
	"errors"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

// silent is a backend that must not be read.
type silent struct{ *backend }

var errSilent = errors.New("it was asked")

func (silent) Ready(context.Context, storage.ReadyQuery) ([]task.Trigger, error) {
	return nil, errSilent
}

func (silent) Due(context.Context, storage.DueQuery) ([]storage.Due, error) { return nil, errSilent }

func (silent) Queues(context.Context, task.Queue, int) ([]task.Queue, error) { return nil, errSilent }

func TestReadsWithoutADatabaseDoNotAskIt(t *testing.T) {
	ps := backends(2)
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: ps[0]}, {Name: "b", Store: silent{ps[1]}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	here, there := row(1), row(200)
	here.NextEventAt = epoch
	if _, err := s.Insert(t.Context(), here, there); err != nil {
		t.Fatal(err)
	}
	rest := s.Without(1, s.Databases())
	ready := storage.ReadyQuery{Queue: here.Queue(), Limit: 10}
	if page, err := rest.Ready(t.Context(), ready); err != nil || len(page) != 1 || page[0].ID != here.ID {
		t.Errorf("ready are %v, %v", page, err)
	}
	due := storage.DueQuery{State: here.State, Before: epoch.AddDate(1, 0, 0), Limit: 10}
	if page, err := rest.Due(t.Context(), due); err != nil || len(page) != 1 || page[0].ID != here.ID {
		t.Errorf("due are %v, %v", page, err)
	}
	if queues, err := rest.Queues(t.Context(), task.Queue{}, 10); err != nil || len(queues) != 1 {
		t.Errorf("the queues are %v, %v", queues, err)
	}
	if _, err := s.Ready(t.Context(), ready); !errors.Is(err, errSilent) {
		t.Errorf("with it: %v", err)
	}
}
