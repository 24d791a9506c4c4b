package postgres

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// sql replaces {schema} by the name of the schema.
func (c *Coord) sql(text string) string {
	return strings.ReplaceAll(text, "{schema}", quote(c.schema))
}

// call calls a function of the schema. Close does not cancel it, so that the last statement of
// Close comes after it; but it takes at most a third of the lease.
func (c *Coord) call(function string, request, answer any) error {
	q, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.lease/3)
	defer cancel()
	done, err := c.beside(ctx)
	if err != nil {
		return err
	}
	defer done()
	var a string
	// As text, which works in all of pgx's modes.
	err = c.pool.QueryRow(ctx, c.calling(function), string(q), c.lockPatience()).Scan(nil, &a)
	if err != nil {
		return c.explain(err)
	}
	return json.Unmarshal([]byte(a), answer)
}

// sleep waits until d has passed, wake is set, or Close. The zero Signal is never set.
func (c *Coord) sleep(d time.Duration, wake wakeup.Signal) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake.C():
	case <-c.closed:
	}
}

// newID returns a unique ID that cannot be guessed.
func newID() (id task.ID) {
	_, _ = cryptorand.Read(id[:]) // it never fails
	return id
}
