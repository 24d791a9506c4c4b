package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/task"
)

// outOfStock is the class of the error of a reservation for which there is no item.
const outOfStock = "out_of_stock"

// shop knows where the bank, the warehouse and the carrier are. They carry out one request for each key.
type shop struct {
	world    string
	patience time.Duration
}

// Order is the payload of an order.
type Order struct {
	Items []string `json:"items"`
	Cents int      `json:"cents"`
}

// order carries out one order. It is called again after each wait and each failure, and the steps that are done return
// their results at once.
func (s *shop) order(ctx context.Context, f *steps.Flow) ([]byte, error) {
	var o Order
	if err := json.Unmarshal(f.Task.Payload, &o); err != nil {
		return nil, task.Permanent(err)
	}
	_, err := steps.Do(ctx, f, "charge", func(ctx context.Context) (bool, error) {
		return true, s.ask(ctx, "charge", f.Task.Key, f.Key(), o.Cents)
	})
	if err != nil {
		return nil, err
	}
	reserved, err := f.RunChildren(ctx, "reserve", tasks("reserve", f.Task.Key, o.Items)...)
	if err != nil {
		return nil, err
	}
	if reserved.Done < reserved.Count {
		return s.undo(ctx, f, &o, "an item is out of stock")
	}
	approved, err := f.WaitFor(ctx, s.patience, "approved")
	if err != nil {
		return nil, err
	}
	if approved.By != task.BySignal {
		return s.undo(ctx, f, &o, "nobody has approved it")
	}
	_, err = steps.Do(ctx, f, "ship", func(ctx context.Context) (bool, error) {
		return true, s.ask(ctx, "ship", f.Task.Key, f.Key(), o.Items)
	})
	return []byte("shipped"), err
}

// undo compensates the steps of an order in reverse order.
func (s *shop) undo(ctx context.Context, f *steps.Flow, o *Order, why string) ([]byte, error) {
	if _, err := f.RunChildren(ctx, "release", tasks("release", f.Task.Key, o.Items)...); err != nil {
		return nil, err
	}
	_, err := steps.Do(ctx, f, "refund", func(ctx context.Context) (bool, error) {
		return true, s.ask(ctx, "refund", f.Task.Key, f.Key(), o.Cents)
	})
	return []byte("refunded: " + why), err
}

// item is the payload of a task about one item of an order.
type item struct {
	Order  string `json:"order"`
	Number int    `json:"number"` // among the items of the order
	Name   string `json:"name"`
}

// tasks returns requests for one task about each item.
func tasks(typ, order string, items []string) (reqs []task.Request) {
	for i, name := range items {
		payload, err := json.Marshal(item{order, i, name})
		if err != nil {
			panic(err) // a struct of texts
		}
		reqs = append(reqs, task.Request{Type: typ, Payload: payload})
	}
	return reqs
}

func (s *shop) reserve(ctx context.Context, t *task.Task) ([]byte, error) {
	return nil, s.askItem(ctx, "reserve", t)
}

// release gives an item back. The warehouse does not mind if it was not reserved.
func (s *shop) release(ctx context.Context, t *task.Task) ([]byte, error) {
	return nil, s.askItem(ctx, "release", t)
}

func (s *shop) askItem(ctx context.Context, what string, t *task.Task) error {
	var i item
	if err := json.Unmarshal(t.Payload, &i); err != nil {
		return task.Permanent(err)
	}
	return s.ask(ctx, what, i.Order, t.ID.String(), i)
}

// ask sends one request to the world outside. A request that is sent again has the same key.
func (s *shop) ask(ctx context.Context, what, order, key string, about any) error {
	body, err := json.Marshal(about)
	if err != nil {
		return task.Permanent(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.world+"/"+what+"/"+order, bytes.NewReader(body))
	if err != nil {
		return task.Permanent(err)
	}
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return task.InDoubt(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
	switch {
	case res.StatusCode == http.StatusConflict:
		return task.Permanent(task.WithClass(outOfStock, fmt.Errorf("%s: %s", what, text)))
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %s", what, res.Status, text)
	}
	return nil
}
