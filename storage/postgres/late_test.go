//go:build !race

package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

// The times are from a test of PagerDuty's scheduler.
func TestAddRefusesATimeThatLiesTooFarInThePast(t *testing.T) {
	url := server.Database(t)
	set := types("prompt", "other")
	p := set.Types["prompt"]
	p.MaxLateness = 20 * time.Second
	set.Types["prompt"] = p
	n := alone(t, url, set, nil)
	c := pgtest.Connect(t, url)
	for args, refused := range map[string]bool{
		"'prompt', at => clock_timestamp() - interval '10 s'": false,
		"'prompt', at => clock_timestamp() + interval '10 s'": false,
		"'prompt'": false,
		"'other', at => clock_timestamp() - interval '1 year'":             false,
		"'prompt', at => clock_timestamp() - interval '30 s'":              true,
		"'prompt', at => clock_timestamp() - interval '1 h', key => 'new'": true,
	} {
		a, err := add(t.Context(), c, args)
		var e *pgconn.PgError
		if refused && (!errors.As(err, &e) || e.Code != "TE003" || !strings.Contains(e.Message, "Z, lies more than 20 s in the past, which is max_lateness of type prompt;")) || !refused && (err != nil || !a.created) {
			t.Errorf("add(%s): %+v, %v", args, a, err)
		}
	}
	if got := one[int](t, c, "select count(*) from taskengine.tasks"); got != 4 {
		t.Errorf("there are %d tasks", got)
	}
	if a := mustAdd(t, c, "'prompt', key => 'new'"); !a.created {
		t.Error("a late task has taken its key")
	}

	// A caller that has no answer repeats its request, perhaps much later.
	ids := task.NewIDs([32]byte{5})
	id := n.submit(engine.Request{Type: "prompt", ID: ids.Next(time.Now()), Key: "k"})
	for _, args := range []string{"key => 'k'", "id => '" + id.String() + "'", "key => 'k', id => '" + id.String() + "'"} {
		if a := mustAdd(t, c, "'prompt', at => now() - interval '1 h', "+args); a.created || a.id != id {
			t.Errorf("%s: %+v", args, a)
		}
	}
}
