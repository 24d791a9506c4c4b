package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// paid searches for tasks of a customer, and returns how many there are and the index of the first page.
func (n *node) paid() (tasks int, index string) {
	n.t.Helper()
	f, err := filter.Parse("type=pay payload.customer=17", time.Now())
	if err != nil {
		n.t.Fatal(err)
	}
	for before, more := (task.ID{}), true; more; more = !before.IsZero() {
		page, err := n.Search(n.t.Context(), f, before, 2)
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

// untilSetting waits until the setting of the search attributes holds a text.
func (n *node) untilSetting(text string) {
	n.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		value, err := n.store.Setting(n.t.Context(), "search")
		if err != nil {
			n.t.Fatal(err)
		}
		if strings.Contains(string(value), text) {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("the setting is %s, without %s", value, text)
		}
	}
}

// The rules for functions of the database are those of the node that has stored them last, also if that does not declare what others do.
func TestATaskFromSQLIsFoundAfterANodeWithAnOlderConfigurationHasLeft(t *testing.T) {
	url := server.Database(t)
	set := func(places ...string) policy.Set {
		p := policy.DefaultType()
		p.Search, p.Paused = places, true
		return policy.Set{Slots: 2, Types: map[string]policy.Type{"pay": p}}
	}
	add := func() { pgtest.Exec(t, pgtest.Connect(t, url), `select taskengine.add('pay', '{"customer": 17}')`) }
	first := joinWith(t, url, set("payload.customer"), nil, 2*time.Second)
	first.untilSetting(`"complete":true`)
	add()
	older := joinWith(t, url, set(), nil, 2*time.Second)
	add()
	if n, index := first.paid(); n != 2 || index != "" {
		t.Errorf("beside an older configuration %d tasks are found by %q", n, index)
	}
	first.untilSetting(`"payload.customer":`) // it has stored its rules again
	if err := older.Adopt(t.Context(), set(), nil); err != nil {
		t.Fatal(err)
	}
	add()
	if err := older.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	first.untilSetting(`"complete":true`)
	add()
	if n, index := first.paid(); n != 4 || index != "payload.customer" {
		t.Errorf("after it has left %d tasks are found by %q", n, index)
	}
}
