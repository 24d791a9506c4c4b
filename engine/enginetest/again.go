package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/task"
)

var againScenarios = []scenario{
	{"a task runs again with the payload and the checkpoint that its handler asked for, also over restarts", countsInItsRow},
}

// countsInItsRow runs tasks that count their runs in the payload, in a small or a large one, and in
// the checkpoint. A run that fails, and a restart, do not change where they are.
func countsInItsRow(n *node) {
	const runs = 6
	pad := func(i int) []byte { return bytes.Repeat([]byte{'x'}, i%2*3000) }
	state := func(i int) []byte { return fmt.Appendf(nil, "%d %s", i, pad(i)) }
	n.start(types(10, nil, "tick"), map[string]handle{"tick": func(_ context.Context, t *task.Task) ([]byte, error) {
		var i int
		if _, err := fmt.Sscan(string(t.Payload), &i); err != nil {
			return nil, task.Permanent(err)
		}
		checkpoint := state(i)
		if i == 0 {
			checkpoint = nil
		}
		switch {
		case !bytes.Equal(t.Payload, state(i)) || !bytes.Equal(t.Checkpoint(), checkpoint):
			return nil, task.Permanent(fmt.Errorf("run %d has a payload of %d bytes and a checkpoint of %d", i, len(t.Payload), len(t.Checkpoint())))
		case i == runs:
			return nil, nil
		case t.Attempt == 1:
			return nil, errNo
		}
		return []byte("r"), task.Again(time.Now().Add(20*time.Millisecond), task.WithPayload(state(i+1)), task.WithCheckpoint(state(i+1)))
	}})
	ids := n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "tick", Payload: state(0)} })...)
	for range 3 {
		n.close()
		n.reopenStore()
		n.open()
	}
	for _, id := range ids {
		if t := n.expect(id, task.Done); !bytes.Equal(t.Payload, state(runs)) || len(t.Checkpoint()) > 0 {
			n.Errorf("in the end the payload has %d bytes, and the checkpoint %d", len(t.Payload), len(t.Checkpoint()))
		}
	}
}
