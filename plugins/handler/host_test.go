package handler

import (
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// host plays the host of a program, within its process.
type host struct {
	grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler] // nil: there are more methods than are called

	to    chan *wire.ToHandler
	leave func() // ends the stream, and waits for the program

	mu       sync.Mutex
	finishes map[uint64]*wire.Finish // guarded by mu
	frames   []*wire.FromHandler     // guarded by mu: all that came
}

const maxPayload = 700 // of a task that runs again, in bytes

// meet starts a program in a bubble of synctest, and ends it with the test.
func meet(t *testing.T, p Program, features ...string) *host {
	h := &host{to: make(chan *wire.ToHandler), finishes: make(map[uint64]*wire.Finish)}
	w := &worker{program: p, met: make(chan struct{}), over: make(chan struct{})}
	go func() {
		if err := w.Work(h); err != nil {
			t.Errorf("the stream ended: %v", err)
		}
	}()
	h.leave = sync.OnceFunc(func() { close(h.to); <-w.over })
	t.Cleanup(h.leave)
	h.to <- &wire.ToHandler{Welcome: &wire.Welcome{Protocol: wire.Protocol, MaxResultBytes: 1000, MaxPayloadBytes: maxPayload, Features: features}}
	return h
}

func (h *host) Recv() (*wire.ToHandler, error) {
	if f := <-h.to; f != nil {
		return f, nil
	}
	return nil, io.EOF
}

func (h *host) Send(frame *wire.FromHandler) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	frame = proto.CloneOf(frame) // the program uses its own again
	h.frames = append(h.frames, frame)
	for _, f := range frame.GetFinishes() {
		h.finishes[f.GetRunId()] = f
	}
	return nil
}

// run hands over tasks of a type with these ids, in one frame.
func (h *host) run(typ string, ids ...uint64) {
	frame := new(wire.ToHandler)
	for _, id := range ids {
		frame.Runs = append(frame.Runs, &wire.Run{RunId: id, Type: typ})
	}
	h.to <- frame
	synctest.Wait()
}

func (h *host) cancel(ids ...uint64) {
	for _, id := range ids {
		h.to <- &wire.ToHandler{Cancels: []*wire.Cancel{{RunId: id, Reason: wire.Cancel_REASON_CANCELLED, Message: "not needed"}}}
	}
	synctest.Wait()
}

// finish returns the answer to a run once there is nothing to do, nil if there is none.
func (h *host) finish(id uint64) *wire.Finish {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.finishes[id]
}
