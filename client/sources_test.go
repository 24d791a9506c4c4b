package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/server"
)

// sources are the sources of a node with one, which keeps its orders.
type sources struct{ orders []string }

func (s *sources) Names() []string { return []string{"orders"} }

func (s *sources) Source(_ context.Context, name string) (*server.Source, error) {
	if name != "orders" {
		return nil, server.ErrNoSource
	}
	return &server.Source{
		Name: name, Topics: []string{"t"}, Lag: -1, Orders: len(s.orders),
		Partitions: []server.SourcePartition{{Topic: "t", Partition: 3, Position: 5, End: 9, Lag: 4, Lost: []server.SourceLoss{{From: 1, To: 3, At: time.Unix(1, 0)}}}},
	}, nil
}

func (s *sources) order(name, text string) error {
	if name != "orders" {
		return server.ErrNoSource
	}
	s.orders = append(s.orders, text)
	return nil
}

func (s *sources) Pause(_ context.Context, name, reason string) error {
	return s.order(name, "pause "+reason)
}

func (s *sources) Resume(_ context.Context, name string) error { return s.order(name, "resume") }

func (s *sources) Seek(_ context.Context, name string, to server.SourceSeek) error {
	at := int64(-1)
	if to.Offset != nil {
		at = *to.Offset
	}
	return s.order(name, fmt.Sprint("seek ", to.Topic, to.Begin, to.End, to.Time.Unix() == 7, at))
}

func (s *sources) Plan(context.Context, string, server.SourceSeek) ([]server.SourceMove, error) {
	return []server.SourceMove{{Topic: "t", Partition: 3, From: 5, To: 2}}, nil
}

func (s *sources) Counts() map[string]server.SourceCounts { return nil }

func TestSourcesAreReadAndOrdered(t *testing.T) {
	given := new(sources)
	n := newTasks(t)
	n.sources = given
	address, _ := n.serve(t)
	c := open(t, client.Options{}, address)
	listed, err := c.Sources(t.Context())
	if err != nil || len(listed) != 1 || listed[0].Lag != nil || listed[0].Lost != 2 || listed[0].PartitionCount != 1 || len(listed[0].Partitions) != 0 {
		t.Errorf("the list is %+v, %v", listed, err)
	}
	got, err := c.Source(t.Context(), "orders")
	if err != nil || len(got.Partitions) != 1 || got.Partitions[0].Partition != 3 || *got.Partitions[0].Lag != 4 || got.Partitions[0].Lost[0].End != 3 {
		t.Errorf("the source is %+v, %v", got, err)
	}
	if paused, err := c.PauseSource(t.Context(), "orders", "holiday"); err != nil || paused.Orders != 1 {
		t.Errorf("paused, it is %+v, %v", paused, err)
	}
	if resumed, err := c.ResumeSource(t.Context(), "orders"); err != nil || resumed.Orders != 2 {
		t.Errorf("resumed, it is %+v, %v", resumed, err)
	}
	if moves, err := c.SeekSource(t.Context(), "orders", client.SourceSeek{Begin: true}, true); err != nil || len(moves) != 1 || moves[0] != (client.SourceMove{Topic: "t", Partition: 3, Position: 5, Target: 2}) {
		t.Errorf("the moves are %+v, %v", moves, err)
	}
	for _, to := range []client.SourceSeek{
		{Begin: true}, {End: true, Topic: "t"}, {Time: time.Unix(7, 0)}, {Offset: new(uint64(0)), Topic: "t", Partition: new(uint32(0))},
	} {
		if _, err := c.SeekSource(t.Context(), "orders", to, false); err != nil {
			t.Error(err)
		}
	}
	want := []string{"pause holiday", "resume", "seek true false false -1", "seek tfalse true false -1", "seek false false true -1", "seek tfalse false false 0"}
	if !slices.Equal(given.orders, want) {
		t.Errorf("the orders are %q", given.orders)
	}
	if _, err := c.SeekSource(t.Context(), "orders", client.SourceSeek{Begin: true, End: true}, false); !errors.Is(err, client.ErrInvalid) {
		t.Error(err)
	}
	if _, err := c.Source(t.Context(), "order"); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
}
