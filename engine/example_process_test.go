package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// quote is the state of a process that asks two services, joins their replies, and sends a mail.
type quote struct {
	Silent bool              `json:"silent,omitempty"` // there is no reply
	Parts  map[string]string `json:"parts"`
}

// ask sends a message to a service, which is a task: it replies with a signal to the process.
func ask(process task.ID, service string, silent bool) task.Request {
	payload, err := json.Marshal(task.SignalRequest{To: process, Name: service, Data: []byte("the " + service), Keep: true})
	if err != nil {
		panic(err)
	}
	if silent {
		payload = nil
	}
	return task.Request{Type: "service", Payload: payload}
}

// process is one step of a process for each attempt: it updates the state, sends messages, and says what it expects next and for how
// long. All of that is one commit.
func process(_ context.Context, t *task.Task) ([]byte, error) {
	var state quote
	if err := json.Unmarshal(t.Payload, &state); err != nil {
		return nil, task.Permanent(err)
	}
	ttl := time.Now().Add(time.Hour)
	if state.Silent {
		ttl = time.Now().Add(10 * time.Millisecond)
	}
	expect := func(names []string, send ...task.Request) error {
		payload, err := json.Marshal(state)
		if err != nil {
			return err
		}
		return task.WaitFor(names, ttl, task.WithPayload(payload), task.WithTasks(send...))
	}
	switch w := t.Woken(); w.By {
	case task.NotWoken: // fork
		return nil, expect([]string{"price", "stock"}, ask(t.ID, "price", state.Silent), ask(t.ID, "stock", state.Silent))
	case task.ByTimeout:
		return []byte("timed out"), nil
	default:
		if state.Parts == nil {
			state.Parts = make(map[string]string)
		}
		state.Parts[w.Signal.Name] = string(w.Signal.Data)
	}
	switch {
	case state.Parts["mail"] != "":
		return fmt.Appendf(nil, "%s, %s, %s", state.Parts["price"], state.Parts["stock"], state.Parts["mail"]), nil
	case len(state.Parts) == 2: // join
		return nil, expect([]string{"mail"}, ask(t.ID, "mail", false))
	}
	return nil, expect([]string{"price", "stock"})
}

// A process with a fork, a join and a timeout: each attempt is a step, and a signal or the time calls the next one.
func Example_process() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	service := func(_ context.Context, t *task.Task) ([]byte, error) {
		if len(t.Payload) == 0 {
			return nil, nil
		}
		var reply task.SignalRequest
		if err := json.Unmarshal(t.Payload, &reply); err != nil {
			return nil, task.Permanent(err)
		}
		return nil, task.Again(time.Time{}, task.WithSignals(reply))
	}
	e, err := engine.Open(ctx, engine.Config{
		Store:    store,
		Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{"quote": policy.DefaultType(), "service": policy.DefaultType()}},
		Handlers: map[string]task.Handler{"quote": task.HandlerFunc(process), "service": task.HandlerFunc(service)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	receipts, err := e.Submit(ctx, engine.Request{Type: "quote", Payload: []byte(`{}`)}, engine.Request{Type: "quote", Payload: []byte(`{"silent": true}`)})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range receipts {
		if err := e.WaitTasks(ctx, r.ID); err != nil {
			log.Fatal(err)
		}
		t, err := e.Get(ctx, r.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", t.State, t.Result)
	}
	// Output:
	// done: the price, the stock, the mail
	// done: timed out
}
