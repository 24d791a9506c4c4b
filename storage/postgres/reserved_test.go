//go:build !race

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

func TestSQLAddsNothingThatIsReserved(t *testing.T) {
	url := server.Database(t)
	join(t, url, types("ship"), map[string]work{"ship": nothing})
	c := pgtest.Connect(t, url)
	for args, want := range map[string]string{
		"'taskengine.schedule', '{}'":                                "type taskengine.schedule is reserved",
		"'taskengine.later'":                                         "type taskengine.later is reserved",
		"'ship', id => '00000000-0000-82aa-b4a9-58ce9f91b6eb'::uuid": "id 00000000-0000-82aa-b4a9-58ce9f91b6eb is reserved",
	} {
		_, err := add(t.Context(), c, args)
		if refused := (*pgconn.PgError)(nil); !errors.As(err, &refused) || refused.Code != "22023" || !strings.Contains(refused.Message, want) {
			t.Errorf("add(%s): %v, want %q", args, err, want)
		}
	}
	mustAdd(t, c, "'taskengine.workflow', '{}'") // anybody may
	mustAdd(t, c, "'ship', id => '00000000-0001-82aa-b4a9-58ce9f91b6eb'::uuid")
}

// SQL writes data as it is. What begins like an envelope reaches the handler all the same.
func TestDataFromSQLIsNotTakenForAnEnvelope(t *testing.T) {
	data := []byte("\x00te\x01\x01abc")
	url := server.Database(t)
	seen := make(chan []byte, 1)
	n := join(t, url, types("ship"), map[string]work{"ship": func(_ context.Context, _ *node, t *task.Task) ([]byte, error) {
		seen <- bytes.Clone(t.Payload)
		return nil, nil
	}})
	var id string
	if err := pgtest.Connect(t, url).QueryRow(t.Context(), "select id::text from taskengine.add_bytes('ship', $1)", data).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; !bytes.Equal(got, data) {
		t.Errorf("the handler got %q", got)
	}
	parsed, err := task.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	n.end(parsed, task.Done)
}
