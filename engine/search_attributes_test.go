package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

func searched(places ...string) policy.Set {
	return one("pay", func(p *policy.Type) { p.Search, p.Paused = places, true })
}

// found searches for tasks of a customer, and returns how many there are and the index of the first page.
func (n *node) found(customer string) (tasks int, index string) {
	n.t.Helper()
	f, err := filter.Parse("type=pay payload.customer="+customer, time.Now())
	if err != nil {
		n.t.Fatal(err)
	}
	for before, more := (task.ID{}), true; more; more = !before.IsZero() {
		page, err := n.Search(context.Background(), f, before, 3)
		if err != nil {
			n.t.Fatal(err)
		}
		if tasks += len(page.Tasks); before.IsZero() {
			index = page.Index
		}
		before = page.Next
	}
	return tasks, index
}

func (n *node) pay(customer string) task.ID {
	n.t.Helper()
	return n.submit(engine.Request{Type: "pay", Payload: []byte(`{"customer": ` + customer + `}`)})
}

func TestAnIndexOfAnAttributeIsUsedWhileAllNodesDeclareIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		idle := func(context.Context, *task.Task) ([]byte, error) { return nil, nil }
		old := g.join("old", searched(), idle)
		old.pay("17")
		first := g.join("first", searched("payload.customer"), idle)
		first.pay("17")
		time.Sleep(time.Minute)
		if n, index := first.found("17"); n != 2 || index != "" {
			t.Errorf("beside a node without the attribute %d tasks were found by %q", n, index)
		}
		old.close()
		time.Sleep(time.Minute)
		first.pay("17")
		if n, index := first.found("17"); n != 3 || index != "payload.customer" {
			t.Errorf("%d tasks were found by %q", n, index)
		}
		second := g.join("second", searched("payload.customer", "headers.tenant"), idle)
		second.pay("17")
		if n, index := second.found("17"); n != 4 || index != "payload.customer" {
			t.Errorf("of another node with the attribute %d tasks were found by %q", n, index)
		}
		third := g.join("third", searched("headers.tenant"), idle)
		third.pay("17")
		for _, m := range []*member{first, second, third} {
			if n, index := m.found("17"); n != 5 || index != "" {
				t.Errorf("%s: beside another node without the attribute %d tasks were found by %q", m.name, n, index)
			}
		}
		third.close()
		time.Sleep(time.Minute)
		if n, index := second.found("17"); n != 5 || index != "payload.customer" {
			t.Errorf("again alone %d tasks were found by %q", n, index)
		}
		first.close()
		second.close()
	})
}

func TestTasksWithManyValuesAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, searched("payload.customer"), nil)
		n.pay("[" + strings.Repeat("1, ", 40) + "2]")
		var many []string
		for i := range 40 {
			many = append(many, strings.Repeat("9", i+1))
		}
		id := n.pay("[" + strings.Join(many, ", ") + "]")
		if values := n.get(id).Search; len(values) != 1 || values[0] != task.Unread {
			t.Errorf("40 values are %v", values)
		}
		for customer, want := range map[string]int{"1": 1, "2": 1, "99": 1, "3": 0} {
			if got, index := n.found(customer); got != want || index != "payload.customer" {
				t.Errorf("%d tasks of %s were found by %q, not %d", got, customer, index, want)
			}
		}
		n.close()
	})
}

func TestATaskThatRunsAgainWithAnotherPayloadIsFoundByThat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("pay", func(p *policy.Type) { p.Search = []string{"payload.customer"} })
		n := start(t, set, handle("pay", func(_ context.Context, t *task.Task) ([]byte, error) {
			if strings.Contains(string(t.Payload), "18") {
				return nil, nil
			}
			return nil, task.Again(time.Now().Add(time.Minute), task.WithPayload([]byte(`{"customer": 18}`)))
		}))
		n.pay("17")
		synctest.Wait()
		if was, _ := n.found("17"); was != 0 {
			t.Error("it was found by the old payload")
		}
		if is, index := n.found("18"); is != 1 || index != "payload.customer" {
			t.Errorf("%d tasks were found by %q", is, index)
		}
		n.close()
	})
}

func TestValuesOfEncryptedPayloadsAreInNoIndex(t *testing.T) {
	encrypted := encrypting(t, "a")
	for place, refused := range map[string]bool{"payload.customer": true, "headers.tenant": false, "result.x": true} {
		e, err := engine.Open(t.Context(), engine.Config{Store: memory.New(), Codec: encrypted, Policies: searched(place)})
		if (err != nil) != refused {
			t.Errorf("%s: %v", place, err)
		}
		if e != nil {
			_ = e.Close(t.Context())
		}
	}
}
