package server

import (
	"context"
	"io"
	"sync/atomic"
	"testing"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage/memory"
)

// A client sends messages of a hundred requests without reading outcomes until the node reads no more.
func TestANodeStopsReadingAStreamOfWhichTheOutcomesAreNotRead(t *testing.T) {
	e, err := engine.Open(t.Context(), engine.Config{Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	var received, answered atomic.Int64
	full, read := make(chan struct{}), make(chan struct{})
	receive := func() (*taskenginev1.SubmitStreamRequest, error) {
		if received.Load()-answered.Load() >= maxStreamed {
			t.Errorf("the node reads on after %d requests of which %d are answered", received.Load(), answered.Load())
		}
		if received.Load() == 3*maxStreamed {
			return nil, io.EOF
		}
		req := &taskenginev1.SubmitStreamRequest{}
		for range 100 {
			req.Tasks = append(req.Tasks, &taskenginev1.StreamedTask{Task: &taskenginev1.NewTask{Type: "idle"}})
		}
		if received.Add(100) == maxStreamed {
			close(full)
		}
		return req, nil
	}
	send := func(res *taskenginev1.SubmitStreamResponse) error {
		<-read
		answered.Add(int64(len(res.GetOutcomes())))
		return nil
	}
	go func() {
		<-full
		close(read)
	}()
	if err := NewAPI(APIConfig{Engine: e}).submitStream(t.Context(), receive, send); err != nil {
		t.Error(err)
	}
	if answered.Load() != 3*maxStreamed {
		t.Errorf("%d requests are answered, of %d", answered.Load(), 3*maxStreamed)
	}
}
