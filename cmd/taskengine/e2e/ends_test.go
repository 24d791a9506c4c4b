package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/task"
)

// ledger is the URL of a database, in which a handler writes one row for each step of its task, in the transaction
// that ends the attempt.
type ledger string

// errMade is an error that the handler makes.
var errMade = errors.New("made")

// handle does one step of a task whose payload is how many are left, and makes a mistake that its id and its version
// choose: the same task makes all of them in the course of its life.
func (l ledger) handle(ctx context.Context, t *task.Task) ([]byte, error) {
	var left int
	if err := json.Unmarshal(t.Payload, &left); err != nil {
		return nil, task.Permanent(err)
	}
	mistake := (uint64(t.ID[15]) + t.Version/2) % 8
	if mistake == 0 {
		os.Exit(1)
	}
	err := l.step(ctx, t, left, mistake == 1)
	switch {
	case mistake == 1 && errors.Is(err, errMade): // rolled back, and the handler does not know
		return nil, task.Ended()
	case err != nil:
		return nil, err
	}
	switch mistake {
	case 2, 3: // it dies between the commit and its answer
		os.Exit(1)
	case 4:
		return nil, errMade
	case 5:
		return []byte("another result"), nil
	case 6:
		return nil, task.Again(time.Now(), task.WithPayload([]byte("7")))
	}
	return nil, task.Ended()
}

func (l ledger) step(ctx context.Context, t *task.Task, left int, fails bool) error {
	c, err := pgx.Connect(ctx, string(l))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into ledger values ($1, $2)", t.ID.String(), left); err != nil {
			return err
		}
		if left > 1 {
			_, err = tx.Exec(ctx, "select taskengine.again($1, $2, now(), payload => to_jsonb($3::int), result => to_jsonb($4::text))", t.ID.String(), int64(t.Version), left-1, fmt.Sprint(left))
		} else {
			_, err = tx.Exec(ctx, "select taskengine.finish($1, $2, to_jsonb($3::text))", t.ID.String(), int64(t.Version), "all")
		}
		if err == nil && fails {
			err = errMade
		}
		return err
	})
}

// Two nodes, whose handlers die, lie and fail around their commits: each step is written once.
func TestWhatHandlersWriteInTransactionsThatEndTheirAttemptsIsWrittenOnce(t *testing.T) {
	t.Parallel()
	url := tables(t)
	query(t, url, "create table ledger (id uuid, step int)")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := write(t, "taskengine.yaml", fmt.Sprintf(`
storage: %s
handlers: {ledger: {plugin: [%q], env: {%s: plugin, LEDGER: %q}, slots: 1, processes: {min: 2, max: 2}}}
types: {step: {handler: ledger, max_crashes: 0, retry: {max: forever, backoff: {fixed: [10ms]}}}}
`, onPostgres(url), self, role, url))
	nodes := []*running{start(t, nil, "run", "-c", config, "--set", "task_log.path="+t.TempDir()), start(t, nil, "run", "-c", config, "--set", "task_log.path="+t.TempDir())}
	const steps = 4
	var ids []string
	for i := range 12 {
		args := []string{"task", "add", "step", "--data", fmt.Sprint(steps)}
		if i%3 == 0 {
			args = append(args, "--ordering-key", fmt.Sprint(i%2))
		}
		ids = append(ids, fmt.Sprint(nodes[i%2].objects(t, args...)[0]["id"]))
	}
	for _, id := range ids {
		row := nodes[0].until(t, id, "done")
		if fmt.Sprint(row["result"]) != "all" || fmt.Sprint(row["payload"]) != "1" || fmt.Sprint(row["attempt"]) == "0" {
			t.Errorf("it ended as %v", row)
		}
		if got := query(t, url, "select string_agg(step::text, ' ' order by step) from ledger where id = '"+id+"'"); got != "1 2 3 4" {
			t.Errorf("the steps of %s that were written are %s", id, got)
		}
	}
	if wrong := query(t, url, "select taskengine.recount()"); wrong != "0" {
		t.Errorf("%s counts are wrong", wrong)
	}
}
